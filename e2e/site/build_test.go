package site

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The versions that are built. The second one also is the newest.
const older, newest = "1.9.0", "1.10.0"

// buildLimit bounds the installation of the generator and all builds.
const buildLimit = 5 * time.Minute

var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// needs skips the test without one of the programs, or fails it if NEEDS_SITE is set.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("NEEDS_SITE") != "" {
			t.Fatalf("no %s: install it (Debian: apt-get install nodejs npm chromium)", name)
		}
		t.Skipf("no %s: install nodejs, npm and chromium, or set NEEDS_SITE to fail", name)
	}
}

// site returns the directory with the builds of both versions.
func site(t *testing.T) string {
	t.Helper()
	needs(t, "node", "npm", "make")
	if _, err := os.Stat("../../website/node_modules"); err != nil && os.Getenv("NEEDS_SITE") == "" {
		t.Skip("the generator is not installed: run make site, or make test-site")
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "site-"); built.err == nil {
			built.err = build(built.dir, older, newest)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// build builds versions of the site into dir.
func build(dir string, versions ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	for _, v := range versions {
		cmd := exec.CommandContext(ctx, "make", "-C", "../..", "site", "SITE_DIR="+dir, "SITE_VERSION="+v)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build version %s: %w\n%s", v, err, out)
		}
	}
	return nil
}

// TestReproducible builds a version again and compares all files.
func TestReproducible(t *testing.T) {
	first, second := filepath.Join(site(t), newest), t.TempDir()
	if err := build(second, newest); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(first, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		name, err := filepath.Rel(first, path)
		if err != nil {
			return err
		}
		a, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(second, newest, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs between two builds", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("%d files, at least 100 were expected", files)
	}
}
