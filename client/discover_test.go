package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// A node without servers, or whose servers do not answer, finds them, also after a search that fails.
func TestDiscover(t *testing.T) {
	gone := clienttest.StartServer(t)
	unreachable := gone.Addr()
	gone.Stop()
	for name, known := range map[string][]string{"none": nil, "unreachable": {unreachable}} {
		t.Run(name, func(t *testing.T) {
			f := clienttest.StartServer(t)
			cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
			cfg.Servers = known
			var searches atomic.Int32
			cfg.Consul.FindServers = func(context.Context) ([]string, error) {
				if searches.Add(1) == 1 {
					return nil, errors.New("no answer")
				}
				return []string{f.Addr()}, nil
			}
			clienttest.Start(t, cfg)
			testpace.Until(t, "the node registers", func() bool {
				f.Mu.Lock()
				defer f.Mu.Unlock()
				return f.Node != nil
			})
			if n := searches.Load(); n != 2 {
				t.Errorf("%d searches", n)
			}
		})
	}
}
