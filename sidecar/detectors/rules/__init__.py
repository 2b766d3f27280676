"""The rules layer: RE2 patterns behind a literal prefilter."""
