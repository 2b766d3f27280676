"""Makes the model that `sidecar/detectors/semantic/layer.py` reads with: corpus, training, calibration, export."""
