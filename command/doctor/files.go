package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/certs"
)

// existing returns the nearest parent of a path that exists.
func existing(path string) string {
	path = filepath.Clean("/" + path)
	for {
		if _, err := os.Stat(path); err == nil || path == "/" {
			return path
		}
		path = filepath.Dir(path)
	}
}

// leastFree is the free space in bytes below which nothing works.
const leastFree = 200 << 20

// disk checks the space and the inodes of the data directories.
func disk(_ context.Context, m *machine) []Finding {
	dirs, space, inodes := []string{"/var/lib"}, 80.0, 70.0
	if s := m.settings; s != nil {
		dirs = []string{s.DataDir}
		if s.Client.Enabled {
			dirs = append(dirs, s.Client.AllocDir, s.Client.StateDir)
			space, inodes = s.Client.GCDiskUsageThreshold, s.Client.GCInodeUsageThreshold
		}
	}
	var out []Finding
	seen := map[unix.Fsid]bool{}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		at := existing(dir)
		var st unix.Statfs_t
		if err := unix.Statfs(at, &st); err != nil {
			out = append(out, warn("", "%s: %v", at, err))
			continue
		}
		if !seen[st.Fsid] {
			seen[st.Fsid] = true
			out = append(out, usage(at, &st, space, inodes)...)
		}
	}
	return out
}

// usage judges the file system of a directory.
func usage(at string, st *unix.Statfs_t, space, inodes float64) []Finding {
	free := st.Bavail * uint64(st.Bsize)
	used := 0.0
	if total := st.Blocks - st.Bfree + st.Bavail; total > 0 {
		used = 100 * (1 - float64(st.Bavail)/float64(total))
	}
	text := fmt.Sprintf("%s: %s free, %.0f%% used", at, term.Bytes(free), used)
	var out []Finding
	switch {
	case free < leastFree:
		out = append(out, fail("free space, or move data_dir", "%s", text))
	case used >= space:
		out = append(out, warn("free space: above client.gc_disk_usage_threshold, ended allocations are removed at once",
			"%s, the threshold is %.0f%%", text, space))
	default:
		out = append(out, ok("%s", text))
	}
	if st.Files == 0 { // the file system has no fixed number
		return out
	}
	percent := 100 * (1 - float64(st.Ffree)/float64(st.Files))
	switch text := fmt.Sprintf("%s: %d inodes free, %.0f%% used", at, st.Ffree, percent); {
	case st.Ffree == 0:
		out = append(out, fail("remove files, or move data_dir", "%s", text))
	case percent >= inodes:
		out = append(out, warn("remove files: above client.gc_inode_usage_threshold, ended allocations are removed at once",
			"%s, the threshold is %.0f%%", text, inodes))
	default:
		out = append(out, ok("%s", text))
	}
	return out
}

// soon is the time before the end of a certificate when a warning begins.
const soon = 30 * 24 * time.Hour

// certificates checks the files of the tls block and their dates.
func certificates(_ context.Context, m *machine) []Finding {
	s := m.settings
	switch {
	case s == nil:
		return nil
	case !s.TLS.RPC && !s.TLS.HTTP:
		return []Finding{warn("set tls.rpc and tls.http: see 'nomad tls'",
			"TLS is off: others on the network can read tokens and act as servers")}
	}
	store, err := certs.Open(s.CertsConfig())
	if err != nil {
		return []Finding{fail("correct the tls block or its files", "%v", err)}
	}
	now := time.Now()
	out := []Finding{expiry("certificate "+s.TLS.CertFile, store.Expires(), now,
		"issue a new one with 'nomad tls cert create', and send the agent SIGHUP")}
	if at := store.CAExpires(); !at.IsZero() {
		out = append(out, expiry("CA "+s.TLS.CAFile, at, now, "create a new CA, and add it to ca_file of every agent before certificates use it"))
	}
	if !s.TLS.VerifyServerHostname {
		out = append(out, warn("set tls.verify_server_hostname = true",
			"names in certificates are not checked: a client's certificate can act as a server"))
	}
	return out
}

// expiry judges the end of a certificate.
func expiry(what string, at, now time.Time, remedy string) Finding {
	date := at.UTC().Format(time.DateOnly)
	switch rest := at.Sub(now); {
	case rest <= 0:
		return fail(remedy, "%s: expired on %s", what, date)
	case rest < soon:
		return warn(remedy, "%s: expires on %s, in %s", what, date, term.Duration(rest))
	}
	return ok("%s: valid until %s", what, date)
}

// fileModes checks who can read keys and write configuration.
func fileModes(_ context.Context, m *machine) []Finding {
	var out []Finding
	for _, path := range m.configFiles() {
		out = append(out, mode(path, 0o022, "others can change what the agent does", "go-w"))
	}
	s := m.settings
	if s == nil {
		return out
	}
	if s.TLS.KeyFile != "" {
		out = append(out, mode(s.TLS.KeyFile, 0o077, "others can act as this agent", "600"))
	}
	if s.Server.Encrypt != "" {
		for _, path := range m.configFiles() {
			if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), "encrypt") {
				out = append(out, mode(path, 0o077, "it has the gossip key, which others can read", "600"))
			}
		}
	}
	for _, d := range []struct {
		path   string
		bits   fs.FileMode
		danger string
	}{
		{s.DataDir, 0o022, "others can replace the state of the agent"},
		{filepath.Join(s.DataDir, "server"), 0o077, "others can read the state of the servers"},
		{filepath.Join(s.DataDir, "server", "keystore"), 0o077, "others can read the root keys"},
		{filepath.Join(s.DataDir, "client"), 0o077, "others can read the identity of the node"},
	} {
		if _, err := os.Stat(d.path); s.DataDir != "" && err == nil {
			out = append(out, mode(d.path, d.bits, d.danger, fmt.Sprintf("u=rwX,go-%s", letters(d.bits))))
		}
	}
	return out
}

func letters(bits fs.FileMode) string {
	if bits == 0o022 {
		return "w"
	}
	return "rwx"
}

// mode checks that a file has none of the bits.
func mode(path string, bits fs.FileMode, danger, chmod string) Finding {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("create it, or correct the path", "%s does not exist", path)
	case err != nil:
		return warn("run as root", "%s: %v", path, err)
	case info.Mode().Perm()&bits != 0:
		return fail("chmod "+chmod+" "+path, "%s has mode %04o: %s", path, info.Mode().Perm(), danger)
	}
	return ok("%s: mode %04o", path, info.Mode().Perm())
}

// configFiles lists the files of the configuration, as an agent reads them.
func (m *machine) configFiles() []string {
	var out []string
	for _, path := range m.paths {
		entries, err := os.ReadDir(path)
		if err != nil { // a file, or missing: the check of the configuration reports it
			if _, err := os.Stat(path); err == nil {
				out = append(out, path)
			}
			continue
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext == ".hcl" || ext == ".json" {
				out = append(out, filepath.Join(path, e.Name()))
			}
		}
	}
	return out
}
