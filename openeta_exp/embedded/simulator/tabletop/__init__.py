"""A small MuJoCo tabletop of our own: a gantry gripper, six objects, a basket and a shelf."""
