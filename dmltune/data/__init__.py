"""Images and labels: catalogue, class splits, samplers, augmentation, and batches for `fit`."""
