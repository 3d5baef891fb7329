package qemu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Times of the fingerprint.
const (
	fingerprintEvery = 30 * time.Second
	versionPatience  = 10 * time.Second
)

// versionPattern finds the version in the output of an emulator.
var versionPattern = pattern.Lazy(`version (\d[\.\d+]+)`)

// Fingerprint implements drivers.Driver. It looks for emulators every 30 s.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	ch := make(chan drivers.Fingerprint, 1)
	go func() {
		defer close(ch)
		var last drivers.Fingerprint
		for {
			f := fingerprint(ctx, d.Name(), d.Current())
			if ctx.Err() != nil {
				return
			}
			if !reflect.DeepEqual(f, last) {
				last = f
				select {
				case ch <- f:
				case <-ctx.Done():
					return
				}
			}
			if backoff.Sleep(ctx, fingerprintEvery) != nil {
				return
			}
		}
	}()
	return ch
}

func fingerprint(ctx context.Context, name string, set settings) drivers.Fingerprint {
	found, dir := emulators(set)
	if len(found) == 0 {
		return drivers.Fingerprint{Health: drivers.HealthUndetected}
	}
	version, err := versionOf(ctx, filepath.Join(dir, prefix+found[0]))
	if err != nil {
		return drivers.Fingerprint{Health: drivers.HealthUndetected, Description: err.Error()}
	}
	f := drivers.Fingerprint{Health: drivers.HealthHealthy, Description: "Healthy", Attributes: map[string]string{
		drivers.Attribute(name, ""):          "1",
		drivers.Attribute(name, "version"):   version,
		drivers.Attribute(name, "emulators"): strings.Join(found, ","),
	}}
	if err := usable(); err != nil {
		f.Health, f.Description = drivers.HealthUnhealthy, err.Error()
	}
	return f
}

// emulators returns the allowed emulators of the first directory of PATH that has any, without their prefix.
func emulators(set settings) (found []string, dir string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
		if err != nil {
			continue
		}
		for _, file := range files {
			suffix := strings.TrimPrefix(filepath.Base(file), prefix)
			allowed := len(set.emulators) == 0 || slices.Contains(set.emulators, suffix)
			if info, err := os.Stat(file); err == nil && allowed && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				found = append(found, suffix)
			}
		}
		if len(found) > 0 {
			slices.Sort(found)
			return found, dir
		}
	}
	return nil, ""
}

// versionOf runs an emulator of the node for its version.
func versionOf(ctx context.Context, file string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, file, "--version").Output()
	if err != nil {
		//lint:ignore ST1005 the text is that of Nomad
		return "", fmt.Errorf("Failed to execute qemu binary: %w", err)
	}
	match := versionPattern().FindSubmatch(out)
	if match == nil {
		//lint:ignore ST1005 the text is that of Nomad
		return "", fmt.Errorf("Failed to parse qemu version from %.100q", out)
	}
	return string(match[1]), nil
}
