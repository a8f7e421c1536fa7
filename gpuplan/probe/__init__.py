"""What does this host report about its accelerators, and which spec files would describe it?"""
