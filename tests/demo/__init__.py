"""The demo: a shop, everything that happens to it in a minute, and the books at its end."""
