#define NAME "patch_b"
#include "../patch_a/patch.h"
