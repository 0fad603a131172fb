#define NAME "patch_a"
#include "patch.h"
