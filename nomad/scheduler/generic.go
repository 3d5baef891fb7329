package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

type base struct {
	log     *slog.Logger
	snap    State
	planner Planner
	now     func() time.Time
	rng     *rand.Rand
}

type generic struct {
	base
	batch bool
}

func (g *generic) Process(ctx context.Context, eval *nomad.Evaluation) error {
	return errors.New("not built")
}

type system struct {
	base
	sysbatch bool
}

func (g *system) Process(ctx context.Context, eval *nomad.Evaluation) error {
	return errors.New("not built")
}
