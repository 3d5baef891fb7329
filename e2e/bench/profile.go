package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// debugRoutes is the configuration with which servers serve profiles.
const debugRoutes = "enable_debug = true"

// serverConfig is the configuration of measured servers.
func (b *bench) serverConfig() string {
	if b.profiles == "" {
		return ""
	}
	return debugRoutes
}

// profiled runs a load while every server writes a CPU profile for as long, when
// profiles are asked for: NAME-0.pprof and so on.
func (b *bench) profiled(ctx context.Context, s *servers, name string, lasts time.Duration, load func() error) error {
	if b.profiles == "" {
		return load()
	}
	all, ctx := errgroup.WithContext(ctx)
	for i, address := range s.addresses() {
		all.Go(func() error {
			file := filepath.Join(b.profiles, fmt.Sprintf("%s-%d.pprof", name, i))
			return fetch(ctx, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", address, int(lasts.Seconds())), file)
		})
	}
	err := load()
	return errors.Join(err, all.Wait())
}

// fetch writes what a URL answers to a file.
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
