"""Images and labels: catalogue, class splits, samplers, augmentation, and the feed that `fit` drinks from."""
