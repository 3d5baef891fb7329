// Package cni finds and runs CNI plugins, and reads the configurations of their networks. Networks
// lists the configurations of a directory, and Find returns one by its name. Exec runs plugins for
// the CNI library (libcni). Versions returns the plugins of the node for its attributes.
//
// A plugin is an executable that the operator installs. It runs as root. Its environment has only
// the CNI_* variables and a search path, and its time and output are limited. The package starts no
// goroutine that outlives a call, and keeps no state. It does not connect allocations:
// client/network does.
package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	cniversion "github.com/containernetworking/cni/pkg/version"

	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// Limits of a plugin.
const (
	maxOutput      = 1 << 20
	versionTimeout = 3 * time.Second
	allVersions    = 6 * time.Second // for all plugins: the node registers afterwards
	maxPlugins     = 256             // whose versions are detected
	exitPatience   = time.Second
)

// searchPath is where plugins look for programs such as iptables, after the agent's own path.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// DefaultPluginDirs are the directories without a configured one. The last one is that of Debian's
// package containernetworking-plugins.
var DefaultPluginDirs = []string{"/opt/cni/bin", "/usr/libexec/cni", "/usr/lib/cni"}

// PluginDirs returns the directories of plugins: the configured ones, those of the environment
// variable CNI_PATH, or the default.
func PluginDirs(configured, env string) []string {
	for _, list := range []string{configured, env} {
		if dirs := slices.DeleteFunc(filepath.SplitList(list), func(s string) bool { return s == "" }); len(dirs) > 0 {
			return dirs
		}
	}
	return DefaultPluginDirs
}

// Exec runs plugins. It implements invoke.Exec.
type Exec struct {
	cniversion.PluginDecoder
	// LockFile stays open in each plugin, so that a lock on it lasts until the plugin has ended, also
	// after the agent. It may be nil.
	LockFile *os.File
}

var _ invoke.Exec = (*Exec)(nil)

// FindInPath implements invoke.Exec.
func (*Exec) FindInPath(plugin string, dirs []string) (string, error) {
	path, err := invoke.FindInPath(plugin, dirs)
	if err != nil {
		return "", fmt.Errorf("CNI plugin %q is not in %s: install it (such as Debian's package "+
			"containernetworking-plugins), or set cni_path in the client block: %w",
			plugin, strings.Join(dirs, ":"), err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("CNI plugin %q: %w", plugin, err)
	}
	if worldWritable(info) {
		return "", fmt.Errorf("CNI plugin %q: %s can be written by every user, and runs as root: run chmod o-w", plugin, path)
	}
	return path, nil
}

// worldWritable reports whether every user can write a file. It is not used then: what it contains would run as root.
func worldWritable(info os.FileInfo) bool { return info.Mode()&0o002 != 0 }

// ExecPlugin implements invoke.Exec.
func (e *Exec) ExecPlugin(ctx context.Context, path string, input []byte, environ []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path)
	stdout, stderr := &firstbytes.Buffer{Limit: maxOutput}, &firstbytes.Buffer{Limit: maxOutput}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), stdout, stderr
	cmd.Env = environment(environ)
	cmd.WaitDelay = exitPatience
	killGroup(cmd)
	if e.LockFile != nil {
		cmd.ExtraFiles = []*os.File{e.LockFile}
	}
	err := cmd.Run()
	name := filepath.Base(path)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("CNI plugin %q did not end in time and was killed: correct its configuration, or replace %s: %w", name, path,
			ctx.Err())
	case stdout.Truncated():
		return nil, fmt.Errorf("CNI plugin %q printed more than %d bytes: replace %s", name, maxOutput, path)
	case err != nil:
		return nil, fmt.Errorf("CNI plugin %q: %w", name, pluginError(err, stdout.Bytes(), stderr.Bytes()))
	case len(stdout.Bytes()) > 0 && !json.Valid(stdout.Bytes()):
		return nil, fmt.Errorf("CNI plugin %q printed %q, which is not JSON: replace %s", name, shortened(stdout.Bytes()), path)
	}
	return stdout.Bytes(), nil
}

// killGroup lets the end of the context kill the programs that the plugin has started too.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}

// pluginError returns the error that a plugin printed.
func pluginError(err error, stdout, stderr []byte) error {
	var printed types.Error
	if json.Unmarshal(stdout, &printed) == nil && printed.Msg != "" {
		return &printed
	}
	text := bytes.TrimSpace(stderr)
	if len(text) == 0 {
		text = bytes.TrimSpace(stdout)
	}
	return fmt.Errorf("%w: it printed %q", err, shortened(text))
}

// shortened returns the part of an output that errors contain.
func shortened(text []byte) []byte {
	const shown = 512
	return text[:min(shown, len(text))]
}

// environment returns the variables of a plugin. The agent's own may be secret.
func environment(all []string) []string {
	env := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return !strings.HasPrefix(v, "CNI_") })
	return append(env, "PATH="+strings.TrimPrefix(os.Getenv("PATH")+":"+searchPath, ":"))
}

// Versions returns the versions of the plugins in the directories by name. A plugin that does not
// print a version is left out.
func Versions(ctx context.Context, dirs []string) (map[string]string, error) {
	paths := map[string]string{}
	var errs []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("list CNI plugins: %w", err))
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			info, err := os.Stat(path) // plugins may be links
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !worldWritable(info) && paths[e.Name()] == "" &&
				len(paths) < maxPlugins {
				paths[e.Name()] = path
			}
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]string{}
	slots := make(chan struct{}, 4)
	ctx, cancel := context.WithTimeout(ctx, allVersions)
	defer cancel()
	for _, name := range bridgeFirst(paths) {
		path := paths[name]
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if v := versionOf(ctx, path); v != "" {
				mu.Lock()
				defer mu.Unlock()
				out[name] = v
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// bridgeFirst returns the names of plugins: first those that the mode bridge needs, so that others that hang do not
// take their time.
func bridgeFirst(paths map[string]string) []string {
	needed := []string{"bridge", "firewall", "host-local", "loopback", "portmap"}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(paths)), func(name string) bool { return slices.Contains(needed, name) })
	return append(slices.DeleteFunc(needed, func(name string) bool { return paths[name] == "" }), rest...)
}

// versionOf returns the first version in the output of a plugin that is not asked for anything, or
// "". Versions of the protocol that are not the last of their list end in a comma.
func versionOf(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	out := &firstbytes.Buffer{Limit: maxOutput}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env, cmd.WaitDelay = environment(nil), exitPatience
	killGroup(cmd)
	_ = cmd.Run() // plugins may fail without a command
	for _, word := range strings.Fields(out.String()) {
		if strings.Count(word, ".") < 2 {
			continue
		}
		if v, err := untrusted.Semver(word); err == nil {
			return v.String()
		}
	}
	return ""
}
