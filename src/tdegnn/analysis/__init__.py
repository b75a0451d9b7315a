"""What a coefficient vector c says about the differential equation behind it. Plain arrays in, dataclasses out."""
