"""Jobs on a Ray cluster: what it has, what a job needs, the driver there, and manifests for Kubernetes."""
