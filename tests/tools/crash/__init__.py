"""A program that kills itself at a crash point (include/crash.h): the ways there, what is seen of
the dead process, and what must hold once it goes on. A way is a Scene (scene.py), and stands with
those that begin alike; tests/integration/test_crash_points.py has the table of the points."""
