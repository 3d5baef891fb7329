package process

import (
	"context"
	"fmt"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Settings hold the operator's settings of a driver. A driver that embeds them has the SetConfig of
// drivers.Driver.
type Settings[S any] struct {
	driver string
	decode func(cty.Value) (S, error)

	mu  sync.Mutex
	set S
}

// NewSettings returns settings with these defaults until SetConfig is called.
func NewSettings[S any](driver string, defaults S, decode func(cty.Value) (S, error)) *Settings[S] {
	return &Settings[S]{driver: driver, decode: decode, set: defaults}
}

// SetConfig implements drivers.Driver.
func (s *Settings[S]) SetConfig(cfg cty.Value) error {
	set, err := s.decode(cfg)
	if err != nil {
		return fmt.Errorf("config of driver %s: %w", s.driver, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
	return nil
}

// Current returns the current settings.
func (s *Settings[S]) Current() S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// Steady is the Fingerprint of a driver whose health does not change.
func Steady(ctx context.Context, f drivers.Fingerprint) <-chan drivers.Fingerprint {
	ch := make(chan drivers.Fingerprint, 1)
	ch <- f
	go func() {
		<-ctx.Done()
		close(ch)
	}()
	return ch
}
