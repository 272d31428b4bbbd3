"""Position bias: with which probability a user looked at a result, estimated from clicks, and what it makes of them.

A click is seen only where somebody looked. A click on a result that was looked at with probability e stands for 1 / e
of them, so weights of 1 / e make a biased log tell on average what an unbiased one would (Joachims et al., WSDM 2017).
"""
