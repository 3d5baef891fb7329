package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	listNodes = 100
	listJobs  = 500
	listCount = 20 // allocations of each job
	// listReaders is the number of concurrent readers.
	listReaders = 4
	listWarm    = time.Second
	listCounted = 4 * time.Second
	// listGain is the target, as a multiple of the program given with -baseline. Its measure is CPU time, because a
	// busy machine changes rates more than costs.
	listGain = 2.5
)

// measuredLists are the measured requests.
var measuredLists = []string{"/v1/allocations?per_page=100", "/v1/jobs"}

// listCost is the cost of one kind of request.
type listCost struct {
	rated
	bytes int64
}

// listRates measures the lists of the HTTP API with 10,000 allocations. With -baseline, it measures that program in the
// same way and compares both.
func listRates(ctx context.Context, b *bench) (string, bool, error) {
	got, err := b.listCosts(ctx, "lists")
	if err != nil {
		return "", false, err
	}
	var before map[string]listCost
	if b.baseline != "" {
		old := *b
		old.nomad = b.baseline
		if before, err = old.listCosts(ctx, "lists-baseline"); err != nil {
			return "", false, fmt.Errorf("baseline: %w", err)
		}
	}
	var said []string
	ok := true
	for _, path := range measuredLists {
		text := fmt.Sprintf("%s %v, %d KiB", path, got[path].rated, got[path].bytes>>10)
		if before != nil {
			gain := float64(before[path].cpu) / float64(got[path].cpu)
			text += fmt.Sprintf(", %.2f × the baseline (%v)", gain, before[path].rated)
			ok = ok && gain >= listGain
		}
		said = append(said, text)
	}
	return strings.Join(said, "; "), ok, nil
}

// listCosts measures all lists with a new server.
func (b *bench) listCosts(ctx context.Context, name string) (map[string]listCost, error) {
	a, err := b.server(ctx)
	if err != nil {
		return nil, err
	}
	defer a.Kill()
	fleet, err := b.simulate(ctx, a, listNodes)
	if err != nil {
		return nil, err
	}
	defer fleet.stop()
	if err := listed(ctx, a, fleet); err != nil {
		return nil, err
	}
	out := map[string]listCost{}
	for i, path := range measuredLists {
		err := b.profiled(ctx, []string{a.Address()}, profile{fmt.Sprintf("%s-%d", name, i), listWarm + listCounted}, func() error {
			cost, err := readRate(ctx, a, path)
			out[path] = cost
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out, nil
}

// listed registers the jobs and waits until all their allocations run.
func listed(ctx context.Context, a *cluster.Agent, fleet *fleetOf) error {
	if err := services(ctx, a, listJobs, listCount); err != nil {
		return err
	}
	if err := fleet.do("run", listNodes); err != nil {
		return err
	}
	return summed(ctx, a, "all allocations run", func(s api.TaskGroupSummary) bool { return s.Running == listJobs*listCount })
}

// readRate requests a list with concurrent readers.
func readRate(ctx context.Context, a *cluster.Agent, path string) (listCost, error) {
	within, cancel := context.WithTimeout(ctx, listWarm+listCounted+settleWithin)
	defer cancel()
	var reads, bytes atomic.Int64
	end := time.Now().Add(listWarm + listCounted)
	all, reading := errgroup.WithContext(within)
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: listReaders}
	defer transport.CloseIdleConnections()
	for range listReaders {
		all.Go(func() error {
			for time.Now().Before(end) {
				n, err := readList(reading, transport, a.Address()+path)
				if err != nil {
					return err
				}
				bytes.Store(n)
				reads.Add(1)
			}
			return nil
		})
	}
	began, used, before := time.Now(), cpuTime(a.Pid()), int64(0)
	select {
	case <-reading.Done():
	case <-time.After(listWarm):
		began, used, before = time.Now(), cpuTime(a.Pid()), reads.Load()
	}
	err := all.Wait()
	n := reads.Load() - before
	return listCost{rated{float64(n) / time.Since(began).Seconds(), (cpuTime(a.Pid()) - used) / time.Duration(max(n, 1))}, bytes.Load()}, err
}

// readList reads one response and discards it.
func readList(ctx context.Context, transport *http.Transport, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", url, resp.Status))
	}
	return n, errors.Join(err, resp.Body.Close())
}
