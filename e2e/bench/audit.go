package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/nomad/audit"
)

// Number of events in a round, and number of rounds.
const (
	auditEvents = 20_000
	auditRounds = 7
)

// auditCost measures the time that an audit event adds to its request. This includes creation,
// filters and the write to the file.
func auditCost(ctx context.Context, b *bench) (string, bool, error) {
	log := audit.New(audit.Node{Name: "bench", Region: "global", Address: "127.0.0.1:4646"}, slog.New(slog.DiscardHandler))
	defer log.Close() // the directory is removed
	err := log.Set(&audit.Config{
		Path:        filepath.Join(b.dir, "audit", "audit.log"),
		OwnDir:      true,
		Mode:        0o600,
		Enforced:    true,
		RotateBytes: 16 << 20,
		Keep:        1,
		Filters:     []audit.Filter{{Type: "HTTPEvent", Endpoints: []string{"/v1/metrics", "/v1/agent/*"}}},
	})
	if err != nil {
		return "", false, err
	}
	who := audit.Auth{AccessorID: "a162f017-bcf7-900c-e22a-a2a8cbbcef53", Name: "a token", Kind: "client", Policies: []string{"dev", "ops"}}
	asked := audit.Request{Operation: "GET", Endpoint: "/v1/job/example/allocations", Namespace: "default", RemoteAddress: "127.0.0.1:33648",
		UserAgent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"}
	var took []time.Duration
	for range auditRounds {
		began := time.Now()
		for range auditEvents {
			event := &audit.Event{
				Type:     audit.HTTP,
				Stage:    audit.Complete,
				Auth:     who,
				Request:  asked,
				Response: &audit.Response{Status: 200},
			}
			if err := log.Record(event); err != nil {
				return "", false, err
			}
		}
		took = append(took, time.Since(began)/auditEvents)
		if ctx.Err() != nil {
			return "", false, ctx.Err()
		}
	}
	m := median(took)
	return fmt.Sprintf("%.1f µs (median of %d rounds)", float64(m.Nanoseconds())/1000, auditRounds), m <= 25*time.Microsecond, nil
}
