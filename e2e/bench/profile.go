package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// debugRoutes is the configuration that enables profiles.
const debugRoutes = "enable_debug = true\n"

// serverConfig returns the configuration of measured servers. A server has one scheduler worker per
// core by default. Here three servers share the cores of one machine.
func (b *bench) serverConfig() string {
	config := fmt.Sprintf("server {\n  num_schedulers = %d\n}\n", (runtime.NumCPU()+2)/3)
	if b.profiles != "" {
		config += debugRoutes
	}
	return config
}

// profile is the name of the profiles of a load, and how long a CPU profile lasts.
type profile struct {
	name  string
	lasts time.Duration
}

// profiled runs a load. With -profiles each agent writes a CPU profile during the load,
// NAME-0.pprof and so on. After the load it writes a heap profile, NAME-0.heap.pprof.
func (b *bench) profiled(ctx context.Context, addresses []string, p profile, load func() error) error {
	if b.profiles == "" {
		return load()
	}
	all, during := errgroup.WithContext(ctx)
	for i, address := range addresses {
		all.Go(func() error {
			file := filepath.Join(b.profiles, fmt.Sprintf("%s-%d.pprof", p.name, i))
			return fetch(during, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", address, int(p.lasts.Seconds())), file)
		})
	}
	err := errors.Join(load(), all.Wait())
	for i, address := range addresses {
		file := filepath.Join(b.profiles, fmt.Sprintf("%s-%d.heap.pprof", p.name, i))
		err = errors.Join(err, fetch(ctx, address+"/debug/pprof/heap?gc=1", file))
	}
	return err
}

// fetch writes the response body of a URL to a file.
func fetch(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
