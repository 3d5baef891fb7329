package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	servedAllocs  = 100
	servedNames   = 10 // services of each allocation
	servedTarget  = 5 * time.Second
	servedLimit   = 2 * time.Minute
	servedJob     = "served"
	servedAddress = "192.0.2.1"
)

// servicesSeen adds services to running allocations. It measures the time until callers find all of them: the update of
// the job, the registrations by the client over RPC, and the answers of the HTTP API.
func servicesSeen(ctx context.Context, b *bench) (said string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, servedLimit)
	defer cancel()
	a, err := b.agentWith(ctx, "plugin \"mock_driver\" {\n}\n")
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, leave(ctx, a)) }()
	job := batch(servedJob, servedAllocs, "mock_driver", map[string]any{"run_for": "1h"})
	kind := "service"
	job.Type = &kind
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		return "", false, err
	}
	before, err := inStatus(ctx, a, goal{servedJob, servedAllocs, api.AllocClientStatusRunning})
	if err != nil {
		return "", false, err
	}
	for i := range servedNames {
		job.TaskGroups[0].Services = append(job.TaskGroups[0].Services,
			&api.Service{Name: servedName(i), Provider: "nomad", Address: servedAddress, PortLabel: fmt.Sprint(8000 + i)})
	}
	began := time.Now()
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		return "", false, err
	}
	if err := registered(ctx, a); err != nil {
		return "", false, err
	}
	took := time.Since(began)
	after, err := inStatus(ctx, a, goal{servedJob, servedAllocs, api.AllocClientStatusRunning})
	if err != nil {
		return "", false, err
	}
	same := map[string]bool{}
	for _, al := range append(before, after...) {
		same[al.ID] = true
	}
	if len(same) != servedAllocs {
		return "", false, fmt.Errorf("the job has %d allocations: the update was not in place", len(same))
	}
	return fmt.Sprintf("%.1f s for %d services of %d running allocations, from the update of the job", took.Seconds(),
			servedAllocs*servedNames, servedAllocs),
		took <= servedTarget, nil
}

func servedName(i int) string { return fmt.Sprintf("%s-%d", servedJob, i) }

// registered waits until each service has the registrations of all allocations, and the list has each service.
func registered(ctx context.Context, a *cluster.Agent) error {
	for i := range servedNames {
		for index := uint64(0); ; {
			found, meta, err := a.Client.Services().Get(servedName(i), (&api.QueryOptions{WaitIndex: index, WaitTime: servedLimit}).WithContext(ctx))
			if err != nil {
				return err
			}
			if len(found) == servedAllocs {
				break
			}
			index = meta.NextIndex()
		}
	}
	list, _, err := a.Client.Services().List((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return err
	}
	if len(list) != 1 || len(list[0].Services) != servedNames {
		return fmt.Errorf("the list of services has %d namespaces, want one with %d services", len(list), servedNames)
	}
	return nil
}
