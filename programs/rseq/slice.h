// Time-slice extensions.

static long slice_prctl(unsigned long a, unsigned long b, unsigned long c)
{
    long r = prctl(PR_SLICE, a, b, c, 0);
    return r < 0 ? -errno : r;
}

static void slices(volatile struct area *area, uint32_t len)
{
    (void)area;
    (void)len;
    if (!extended)
        return;
    CHECK("unknown operation", slice_prctl(3, 0, 0), -EINVAL);
    CHECK("fourth argument", slice_prctl(1, 0, 1), -EINVAL);
}
