"""The contracts of other products, each a thin adapter on the same pipeline, off until `compat` switches it on."""
