"""Files of pretrained weights: where they are on this machine, and how they get there.

folder     the places that are looked at, and the verification of a file
fetching   the network: mirror, Hugging Face hub, offline
progress   who is told what has arrived; imports nothing heavy
overview   what can be fetched and what is here, for people
"""
