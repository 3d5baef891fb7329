//go:build linux && faults

package faults_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
)

// refusal starts a server that must not start and returns its last output.
func (s *trio) refusal(i int) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settles)
	defer cancel()
	o := s.all[i].Options
	cmd := exec.CommandContext(ctx, o.Bin, append([]string{"agent", "-config=" + filepath.Join(o.Dir, "ports.hcl")}, o.Args...)...)
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ctx.Err() != nil || !ok || exit.ExitCode() != 1 {
		s.t.Fatalf("server %d ended with %v (%v), want exit 1:\n%s", i, err, ctx.Err(), out)
	}
	all := strings.Split(strings.TrimSpace(string(out)), "\n")
	return all[len(all)-1]
}

// saved returns a snapshot of a server's own state.
func (s *trio) saved(i int) (index uint64, state []byte, err error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.all[i].Address()+"/v1/operator/snapshot?stale", nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return 0, nil, errors.Join(fmt.Errorf("%s: %s", resp.Status, text), err)
	}
	zipped, err := gzip.NewReader(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	for archive := tar.NewReader(zipped); ; {
		head, err := archive.Next()
		if err == io.EOF {
			return index, state, nil
		}
		if err != nil {
			return 0, nil, err
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return 0, nil, err
		}
		switch head.Name {
		case "meta.json":
			var meta raft.SnapshotMeta
			if err := json.Unmarshal(text, &meta); err != nil {
				return 0, nil, err
			}
			index = meta.Index
		case "state.bin":
			state = text
		}
	}
}

// same waits until all servers have the same state, byte for byte, and returns its hash.
func (s *trio) same() (index uint64, sum string) {
	s.t.Helper()
	s.within("all servers have the same state", func() error {
		sums := map[string][]int{}
		for i := range s.all {
			at, state, err := s.saved(i)
			if err != nil {
				return err
			}
			sum, index = fmt.Sprintf("%x", sha256.Sum256(state)), max(index, at)
			sums[sum] = append(sums[sum], i)
		}
		if len(sums) != 1 {
			return fmt.Errorf("states are of servers %v", sums)
		}
		return nil
	})
	return index, sum
}

// After load, restarts and a leader election the servers have the same state.
func TestSameState(t *testing.T) {
	s := startTrio(t, "server {\n  raft_snapshot_threshold = 100\n  raft_snapshot_interval = \"1s\"\n  raft_trailing_logs = 20\n}\n")
	stop := s.load()
	enough := func(n int) {
		s.within("writes", func() error {
			if s.writes() < n {
				return fmt.Errorf("only %d", s.writes())
			}
			return nil
		})
	}
	enough(300)
	first := s.lead()
	s.killAll(first) // it returns from its snapshot, or the leader's
	enough(s.writes() + 300)
	s.restart(first)
	enough(s.writes() + 100)
	stop()
	s.lead()
	s.complete()
	index, sum := s.same()
	s.killAll(0, 1, 2)
	s.restart(0, 1, 2) // from their own snapshots and logs
	s.lead()
	s.complete()
	again, now := s.same()
	t.Logf("state at index %d is %.12s, after all restarted at %d %.12s", index, sum, again, now)
}

// A snapshot contains a record that this version does not support: the server reports its number
// and does not start, and no file changes.
func TestUnknownRecord(t *testing.T) {
	s := startTrio(t, "")
	s.within("a write", func() error { return s.write(s.all[0], 0) })
	s.complete()
	if _, _, err := s.saved(2); err != nil {
		t.Fatal(err)
	}
	s.killAll(2)
	dir := filepath.Join(s.all[2].Dir, "data/server")
	snaps, err := filepath.Glob(filepath.Join(dir, "raft/snapshots/*"))
	if err != nil || len(snaps) == 0 {
		t.Fatal(snaps, err)
	}
	slices.Sort(snaps)
	newest := snaps[len(snaps)-1]
	good := editSnapshot(t, newest, func(state []byte) []byte { return append(slices.Clone(state), 99, 0x80) })
	before := tree(t, dir)
	if text := s.refusal(2); !strings.Contains(text, "unrecognized snapshot type 99") {
		t.Errorf("output of the server: %q", text)
	}
	if now := tree(t, dir); now != before {
		t.Errorf("the directory has changed:\n%s\nwas\n%s", now, before)
	}
	s.within("a write without it", func() error { return s.write(s.all[0], 0) })
	editSnapshot(t, newest, func([]byte) []byte { return good })
	s.restart(2)
	s.lead()
	s.complete()
}

// editSnapshot changes the state in a snapshot and its checksum, and returns the old state.
func editSnapshot(t *testing.T, dir string, edit func([]byte) []byte) []byte {
	t.Helper()
	was, err := os.ReadFile(filepath.Join(dir, "state.bin"))
	if err != nil {
		t.Fatal(err)
	}
	now := edit(was)
	text, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	var meta map[string]any
	if err := json.Unmarshal(text, &meta); err != nil {
		t.Fatal(err)
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	sum.Write(now)
	meta["CRC"], meta["Size"] = sum.Sum(nil), len(now)
	if text, err = json.Marshal(meta); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "state.bin"), now, 0o600), os.WriteFile(filepath.Join(dir, "meta.json"), text, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return was
}

// tree lists the snapshots and segments of a server with the hashes of their contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	for _, pattern := range []string{"raft/snapshots/*/*", "raft/wal/*.wal", "raft/version", "node-id"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, found, err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %x\n", path, sha256.Sum256(text))
		}
	}
	return out.String()
}

// An entry with an unknown number stops every server that applies it, with the number in the error.
// An entry with the ignore flag is skipped.
func TestUnknownCommand(t *testing.T) {
	s := startTrio(t, "")
	s.within("a write", func() error { return s.write(s.all[0], 0) })
	s.complete()
	s.killAll(0, 1, 2)
	s.appendEntry(111 | 128) // with nomad's flag for entries that may be ignored
	s.restart(0, 1, 2)
	s.lead()
	s.within("a write behind it", func() error { return s.write(s.all[0], 0) })
	s.complete()
	s.same()
	s.killAll(0, 1, 2)
	s.appendEntry(111)
	errs := make([]string, 3)
	done := make(chan struct{})
	for i := range s.all {
		go func() { defer func() { done <- struct{}{} }(); errs[i] = s.ending(i) }()
	}
	for range s.all {
		<-done
	}
	named := 0
	for i, text := range errs {
		if strings.Contains(text, "type 111 (unknown), which this version does not support") {
			named++
		}
		t.Logf("server %d: %s", i, text)
	}
	if named < 2 { // a majority commits it, and each server that applies it reports the reason for its end
		t.Errorf("%d servers named the type that they do not support", named)
	}
}

// ending runs a server until it ends, at most for the time of an election.
func (s *trio) ending(i int) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), settles/2)
	defer cancel()
	o := s.all[i].Options
	cmd := exec.CommandContext(ctx, o.Bin, append([]string{"agent", "-config=" + filepath.Join(o.Dir, "ports.hcl")}, o.Args...)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	all := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Sprint(all[len(all)-1], " ", err)
}

// appendEntry appends a command with the number to the logs of the three stopped servers.
// The kill may have come between two appends of one entry: a server that lacks entries of the longest log is given
// them first, because two entries with the same index and term must be equal.
func (s *trio) appendEntry(number byte) {
	s.t.Helper()
	var logs [3]*wal.WAL
	var last [3]uint64
	for i := range s.all {
		meta := &metadb.BoltMetaDB{}
		log, err := wal.Open(filepath.Join(s.all[i].Dir, "data/server/raft/wal"), wal.WithMetaStore(meta))
		if err == nil {
			last[i], err = log.LastIndex()
		}
		if err != nil {
			s.t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(log.Close(), meta.Close()); err != nil {
				s.t.Error(err)
			}
		}()
		logs[i] = log
	}
	end := slices.Max(last[:])
	longest := logs[slices.Index(last[:], end)]
	var entry raft.Log
	for i, log := range logs {
		for at := last[i] + 1; at <= end; at++ {
			if err := errors.Join(longest.GetLog(at, &entry), log.StoreLog(&entry)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if err := longest.GetLog(end, &entry); err != nil {
		s.t.Fatal(err)
	}
	entry.Index, entry.Type, entry.Data = end+1, raft.LogCommand, []byte{number, 0x80}
	for _, log := range logs {
		if err := log.StoreLog(&entry); err != nil {
			s.t.Fatal(err)
		}
	}
}
