"""Images and labels: catalogue, splits, samplers, augmentation, batches for `fit`."""
