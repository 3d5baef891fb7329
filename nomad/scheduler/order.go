package scheduler

import (
	"encoding/binary"
	legacy "math/rand" // its generator is part of the format: other servers visit nodes in the same order
	"math/rand/v2"

	"github.com/open-nomad/open-nomad/nomad"
)

// visitSeed returns the seed of the order in which an evaluation visits nodes. Each evaluation has an order of its own,
// so that parallel evaluations choose different nodes. An evaluation without an ID, such as that of an Explainer, gets
// a random one.
func visitSeed(eval *nomad.Evaluation, index uint64, rng *rand.Rand) int64 {
	id := eval.ID
	if len(id) < 8 {
		return int64(rng.Uint64() >> 2)
	}
	return int64((binary.BigEndian.Uint64([]byte(id[len(id)-8:])) ^ index) >> 2)
}

// shuffle orders the candidates by the seed.
func (c *cluster) shuffle() {
	r := legacy.New(legacy.NewSource(c.order))
	for i := len(c.ready) - 1; i > 0; i-- {
		j := r.Intn(i + 1)
		c.ready[i], c.ready[j] = c.ready[j], c.ready[i]
	}
}
