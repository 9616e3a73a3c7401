/* SPDX-License-Identifier: MIT */
/* The histograms of hf_stats(). */
#ifndef HF_CORE_FIGURES_H
#define HF_CORE_FIGURES_H

#include <holdfast.h>

void hf__histogram_add(hf_histogram *histogram, int64_t us);

#endif
