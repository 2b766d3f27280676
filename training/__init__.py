"""Makes the model that `sidecar/layers/semantic.py` reads with: corpus, training, calibration, export."""
