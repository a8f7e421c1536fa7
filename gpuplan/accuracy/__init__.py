"""Published and own measured runs against the estimates: how right is gpuplan?"""
