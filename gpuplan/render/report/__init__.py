"""An answer as one page of HTML to hand over: pictures, figures, working and sources, in a file that needs no network."""
