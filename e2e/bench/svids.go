package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/open-nomad/open-nomad/api"
)

const (
	svidTarget = 5 * time.Millisecond
	svidFetch  = 10 * time.Second // limit of one
	svidCount  = 100
	svidWarm   = 10                    // not counted
	svidPause  = 60 * time.Millisecond // a task gets 20 new JWT-SVIDs per second
	svidMemory = 256
	svidLimit  = 2 * time.Minute
)

// svidConfig has the directory of allocations.
const svidConfig = `client {
  alloc_dir = %q
}
server {
  spiffe {
    trust_domain = "bench.example.org"
  }
}
plugin "exec2" {
  config {
    unveil_by_task = true
  }
}
`

// svidTimes are the times of the SVIDs that a task got.
type svidTimes struct{ X509, JWT []time.Duration }

// svidCost runs a sandboxed task that asks its Workload API for SVIDs, with the client library of the SPIFFE project.
func svidCost(ctx context.Context, b *bench) (said string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, svidLimit)
	defer cancel()
	short, err := os.MkdirTemp("", "svid") // the path of a socket has 107 bytes at most
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(short)
	if err := os.Chmod(short, 0o711); err != nil {
		return "", false, err
	}
	a, err := b.agentWith(ctx, fmt.Sprintf(svidConfig, short))
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, leave(ctx, a)) }()
	program, err := copyOfSelf(a.Dir)
	if err != nil {
		return "", false, err
	}
	job := batch("svids", 1, "exec2", map[string]any{"command": program, "args": []string{"svids"}, "unveil": []string{"rx:" + program}})
	t := job.TaskGroups[0].Tasks[0]
	memory := svidMemory
	t.Resources.CPU, t.Resources.MemoryMB = nil, &memory
	t.Spiffe = &api.TaskSpiffe{X509: true, JWT: true}
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		return "", false, err
	}
	allocs, err := finished(ctx, a, "svids", 1)
	if err != nil {
		return "", false, err
	}
	text, err := stdout(a, allocs[0])
	if err != nil {
		return "", false, err
	}
	var times svidTimes
	if err := json.Unmarshal([]byte(text), &times); err != nil || len(times.X509) == 0 || len(times.JWT) == 0 {
		return "", false, fmt.Errorf("the task printed %q: %w", text, err)
	}
	x509, jwt := median(times.X509), median(times.JWT)
	return fmt.Sprintf("p50 X.509 over a new connection %.2f ms, new JWT %.2f ms (p99 %.1f and %.1f ms, n=%d)", ms(x509), ms(jwt),
		ms(percentile(times.X509, 99)), ms(percentile(times.JWT, 99)), len(times.X509)), max(x509, jwt) <= svidTarget, nil
}

// copyOfSelf copies this program to a directory that tasks may search.
func copyOfSelf(dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "bench")
	return to, os.WriteFile(to, program, 0o755)
}

// svids is the task of svidCost. It prints the times.
func svids([]string) error {
	var t svidTimes
	for i := range svidCount + svidWarm {
		time.Sleep(svidPause)
		x509, jwt, err := fetchSVIDs(fmt.Sprintf("audience-%d", i))
		if err != nil {
			return err
		}
		if i >= svidWarm {
			t.X509, t.JWT = append(t.X509, x509), append(t.JWT, jwt)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

// fetchSVIDs returns the time of a connection with an X.509-SVID, and that of a JWT-SVID for a new audience.
func fetchSVIDs(audience string) (x509, jwt time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), svidFetch)
	defer cancel()
	began := time.Now()
	client, err := workloadapi.New(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	if _, err := client.FetchX509SVID(ctx); err != nil {
		return 0, 0, err
	}
	x509 = time.Since(began)
	began = time.Now()
	_, err = client.FetchJWTSVID(ctx, jwtsvid.Params{Audience: audience})
	return x509, time.Since(began), err
}
