package feasible

import "math"

// maxFitScore is the maximum of the exponential fit below: CPU and memory are both fully used, or
// both unused.
const maxFitScore = 18.0

// BinPackScore returns, from 0 to 1, how full the node would be with more added. Fuller is better.
func (u *Usage) BinPackScore(more Used) float64 {
	return clamp(20-u.freeExponents(more)) / maxFitScore
}

// SpreadScore returns, from 0 to 1, how empty the node would be with more added.
func (u *Usage) SpreadScore(more Used) float64 {
	return clamp(u.freeExponents(more)-2) / maxFitScore
}

// freeExponents sums 10^(free share) of CPU and memory: 2 when both are used
// up, 20 when both are free. Uneven use scores worse than even use.
func (u *Usage) freeExponents(more Used) float64 {
	return math.Pow(10, freeShare(u.used.CPU+more.CPU, u.capacity.CPU)) +
		math.Pow(10, freeShare(u.used.MemoryMB+more.MemoryMB, u.capacity.MemoryMB))
}

func freeShare(used, capacity int64) float64 {
	if capacity <= 0 {
		return 0
	}
	return 1 - float64(used)/float64(capacity)
}

func clamp(v float64) float64 { return math.Max(0, math.Min(maxFitScore, v)) }
