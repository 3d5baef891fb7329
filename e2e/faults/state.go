//go:build linux

package faults

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
)

// Agreed waits until all servers have the same jobs, evaluations, allocations, deployments, nodes, variables
// and scheduler configuration in their own state, including the indexes.
func (c *Cluster) Agreed(ctx context.Context) error {
	return within(ctx, readyWithin, "all servers have the same state", func(ctx context.Context) error {
		var first string
		for i, s := range c.Servers {
			sum, err := s.fingerprint(ctx)
			switch {
			case err != nil:
				return fmt.Errorf("read the state of %s: %w", s.Name, err)
			case i == 0:
				first = sum
			case sum != first:
				return fmt.Errorf("%s has another state than %s", s.Name, c.Servers[0].Name)
			}
		}
		return nil
	})
}

// fingerprint returns a hash of the server's own state.
func (s *Server) fingerprint(ctx context.Context) (string, error) {
	q := (&api.QueryOptions{AllowStale: true}).WithContext(ctx)
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, list := range []func() (any, error){
		func() (any, error) { out, _, err := s.Client.Jobs().List(q); return out, err },
		func() (any, error) { out, _, err := s.Client.Evaluations().List(q); return out, err },
		func() (any, error) { out, _, err := s.Client.Allocations().List(q); return out, err },
		func() (any, error) { out, _, err := s.Client.Deployments().List(q); return out, err },
		func() (any, error) { out, _, err := s.Client.Nodes().List(q); return out, err },
		func() (any, error) { out, _, err := s.Client.Variables().List(q); return out, err },
		func() (any, error) {
			out, _, err := s.Client.Operator().SchedulerGetConfiguration(q)
			if err != nil {
				return nil, err
			}
			return out.SchedulerConfig, nil
		},
	} {
		out, err := list()
		if err != nil {
			return "", err
		}
		if err := enc.Encode(out); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
