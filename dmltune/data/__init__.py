"""Images and labels: the catalogue of data sets, class splits, samplers, augmentation, and the feed that `fit` drinks from."""
