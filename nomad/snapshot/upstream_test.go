package snapshot_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

//go:embed testdata/records.txt
var fieldTable string

// kept maps the record types that are written again to the structs of their rows.
var kept = map[byte]string{0: "Node", 1: "Job", 2: "IndexEntry", 3: "Evaluation", 4: "Allocation", 6: "PeriodicLaunch", 7: "JobSummary",
	9: "Job", 10: "Deployment",
	11: "ACLPolicy", 12: "ACLToken", 13: "SchedulerConfiguration", 14: "ClusterMetadata", 16: "ScalingPolicy", 17: "CSIPlugin",
	18: "CSIVolume", 19: "JobScalingEvents",
	21: "ServiceRegistration", 22: "VariableEncrypted", 23: "VariablesQuota", 25: "ACLRole", 26: "ACLAuthMethod", 27: "ACLBindingRule",
	28: "NodePool", 29: "JobSubmission",
	30: "RootKey", 31: "HostVolume", 64: "Namespace"}

// recomputed lists the beginnings of fields that a restore computes again. A plugin is computed from nodes and jobs. Nomad
// stores no allocations in the records of volumes, only their IDs.
var recomputed = []string{"NodePool.Hash", "CSIPlugin.", "CSIVolume.ReadAllocs.key.", "CSIVolume.WriteAllocs.key."}

// structs returns the fields of each struct as "name type", and the aliases of types.
func structs() (fields map[string][]string, aliases map[string]string) {
	fields, aliases = map[string][]string{}, map[string]string{}
	name := ""
	for line := range strings.Lines(fieldTable) {
		line = strings.TrimRight(line, "\n")
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "type "):
			name = words[1]
			if kind := strings.TrimPrefix(strings.Join(words[2:], " "), "= "); !strings.HasPrefix(kind, "struct") {
				aliases[name] = kind
			} else {
				fields[name] = []string{}
			}
		case strings.HasPrefix(line, "  ") && words[0] != "(empty)":
			fields[name] = append(fields[name], strings.TrimSpace(line))
		}
	}
	return fields, aliases
}

// maker creates values for all fields.
type maker struct {
	fields  map[string][]string
	aliases map[string]string
}

func number(path string) int {
	h := fnv.New32a()
	h.Write([]byte(path))
	return int(h.Sum32()%100) + 1
}

// row returns a value of a struct with all fields set. within ends recursion.
func (m *maker) row(kind, path string, within []string) map[string]any {
	out := map[string]any{}
	for _, line := range m.fields[kind] {
		if inlined, ok := strings.CutPrefix(line, "+"); ok {
			for k, v := range m.row(inlined, path, within) {
				out[k] = v
			}
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		of, _, _ := strings.Cut(rest, " codec:")
		if renamed := strings.Index(rest, `codec:"`); renamed >= 0 {
			if to, _, _ := strings.Cut(rest[renamed+7:], `"`); strings.Trim(to, ",") != "" && !strings.HasPrefix(to, ",") {
				name, _, _ = strings.Cut(to, ",")
			}
		}
		if v := m.value(strings.TrimSpace(of), path+"."+name, within); v != nil {
			out[name] = v
		}
	}
	return out
}

// value returns a value of a type, or nil for an endless recursion.
func (m *maker) value(kind, path string, within []string) any {
	switch {
	case kind == "[]byte" || kind == "[]uint8":
		return []byte(path)
	case strings.HasPrefix(kind, "[]"):
		if v := m.value(kind[2:], path, within); v != nil {
			return []any{v}
		}
		return nil
	case strings.HasPrefix(kind, "map[string]"):
		if v := m.value(strings.TrimPrefix(kind, "map[string]"), path, within); v != nil {
			return map[string]any{"key": v}
		}
		return nil
	case strings.HasPrefix(kind, "*"):
		return m.value(kind[1:], path, within)
	}
	switch kind {
	case "string", "any", "interface{}":
		return "of " + path
	case "bool":
		return true
	case "*structpb.Struct", "structpb.Struct":
		return nil // always empty
	case "time.Time":
		return time.Unix(1_700_000_000+int64(number(path)), 5000).UTC()
	case "float32", "float64":
		return float64(number(path)) + 0.5
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "time.Duration":
		return number(path)
	}
	kind = kind[strings.LastIndex(kind, ".")+1:]
	if of, ok := m.aliases[kind]; ok {
		return m.value(of, path, within)
	}
	if _, ok := m.fields[kind]; !ok {
		panic("the table has no type " + kind)
	}
	if slices.Contains(within, kind) {
		return nil
	}
	return m.row(kind, path, append(slices.Clone(within), kind))
}

// upstream returns a stream with a row of every record type that is kept.
func upstream(t *testing.T) []byte {
	t.Helper()
	m := &maker{}
	m.fields, m.aliases = structs()
	buf := bytes.NewBuffer([]byte{0x80})
	for _, kind := range slices.Sorted(maps.Keys(kept)) {
		name := kept[kind]
		row := m.row(name, name, []string{name})
		if len(row) == 0 {
			t.Fatalf("the table has no fields of %s", name)
		}
		raw, err := codec.Encode(row)
		if err != nil {
			t.Fatal(err)
		}
		buf.WriteByte(kind)
		buf.Write(raw)
	}
	return buf.Bytes()
}

// golden is the archive of upstream, which other packages restore; -update writes it.
const golden = "testdata/upstream.snap"

var update = flag.Bool("update", false, "write "+golden)

func TestUpstreamArchiveIsTheGoldenOne(t *testing.T) {
	stream := upstream(t)
	if *update {
		if err := os.WriteFile(golden, archive(t, stream), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, err := snapshot.OpenFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, err := a.State()
	if err != nil {
		t.Fatal(err)
	}
	state, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(plain(t, state)), fmt.Sprint(plain(t, stream)); got != want {
		t.Error("the golden archive differs: run this test with -update")
	}
}

// paths lists the nonzero values of a row as text, by path.
func paths(v any, at string, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, field := range v {
			paths(field, at+"."+k, out)
		}
	case []any:
		for i, field := range v {
			paths(field, fmt.Sprint(at, "[", i, "]"), out)
		}
	default:
		if text := fmt.Sprint(v); text != "" && text != "<nil>" && text != "0" && text != "false" {
			out[at] = text
		}
	}
}

// plain returns the rows of a stream by type, decoded generically.
func plain(t *testing.T, stream []byte) map[byte][]map[string]string {
	t.Helper()
	out := map[byte][]map[string]string{}
	for _, rec := range split(t, stream) {
		var v any
		if err := json.Unmarshal([]byte(rec[1:]), &v); err != nil {
			t.Fatal(err)
		}
		row := map[string]string{}
		paths(v, "", row)
		out[rec[0]] = append(out[rec[0]], row)
	}
	return out
}

// TestUpstreamArchiveLosesNothing restores an archive with every field of every record type and
// saves it again.
func TestUpstreamArchiveLosesNothing(t *testing.T) {
	stream := upstream(t)
	store, err := fsm.ReadSnapshot(bytes.NewReader(stream), nil)
	if err != nil {
		t.Fatal(err)
	}
	var after bytes.Buffer
	if err := fsm.WriteSnapshot(&after, store.Snapshot()); err != nil {
		t.Fatal(err)
	}
	got := plain(t, after.Bytes())
	want := plain(t, stream)
	if len(want) != len(kept) {
		t.Fatalf("%d types of records, want %d", len(want), len(kept))
	}
	for kind, rows := range want {
		if lost := lost(kind, rows[0], got[kind]); len(lost) > 0 {
			t.Errorf("%s (type %d) loses %d of %d:\n\t%s", kept[kind], kind, len(lost), len(rows[0]), strings.Join(lost, "\n\t"))
		}
	}
}

// lost lists the fields that are missing in the most similar row.
func lost(kind byte, want map[string]string, rows []map[string]string) []string {
	var least []string
	for i, row := range append(rows, nil) {
		var now []string
		for path, value := range want {
			again := func(field string) bool { return strings.HasPrefix(kept[kind]+path, field) }
			if row[path] != value && !slices.ContainsFunc(recomputed, again) {
				now = append(now, fmt.Sprintf("%s (%s, is %q)", path, value, row[path]))
			}
		}
		if i == 0 || len(now) < len(least) {
			least = now
		}
	}
	slices.Sort(least)
	return least
}

// TestOldRecordsAreSkipped has obsolete records between others. Records after them are not
// lost. An unknown type refuses the whole archive; the error has its number.
func TestOldRecordsAreSkipped(t *testing.T) {
	write := func(kinds ...byte) []byte {
		var buf bytes.Buffer
		out := fsm.NewRecordWriter(&buf)
		if err := out.Header(); err != nil {
			t.Fatal(err)
		}
		for i, kind := range kinds {
			row := any(map[string]any{"ID": fmt.Sprint("id", i), "Namespace": "default", "KeyID": fmt.Sprint("key", i), "State": "inactive"})
			if kind == 5 {
				row = []any{map[string]any{"Index": 7, "Time": time.Unix(1_700_000_000, 0)}}
			}
			if err := out.Write(kind, row); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	store, err := fsm.ReadSnapshot(bytes.NewReader(write(5, 0, 8, 1, 15, 24, 8, 3)), nil)
	if err != nil {
		t.Fatal(err)
	}
	snap := store.Snapshot()
	if snap.Node(nil, "id1") == nil || snap.Job(nil, "default", "id3") == nil || snap.RootKey(nil, "key5") == nil ||
		snap.Eval(nil, "id7") == nil {
		t.Error("records after an old record are lost")
	}
	var after bytes.Buffer
	if err := fsm.WriteSnapshot(&after, snap); err != nil {
		t.Fatal(err)
	}
	for kind := range plain(t, after.Bytes()) {
		if slices.Contains([]byte{5, 8, 15, 24}, kind) {
			t.Errorf("records of type %d are written", kind)
		}
	}
	for _, kind := range []byte{20, 32, 63, 65, 66, 127, 128, 255} {
		a, err := snapshot.Open(bytes.NewReader(archive(t, write(0, kind, 1))), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("type %d", kind)) {
			t.Errorf("a record of type %d: %v", kind, err)
		}
		a.Close()
	}
}

// TestRedactedUpstreamArchiveHasNoSecret looks for the secrets of every record.
func TestRedactedUpstreamArchiveHasNoSecret(t *testing.T) {
	a, err := snapshot.OpenFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var redacted bytes.Buffer
	if err := a.Redact(&redacted, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	b, err := snapshot.Open(&redacted, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	text := func(a *snapshot.Archive) string {
		r, err := a.State()
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(all)
	}
	before, after := text(a), text(b)
	for _, secret := range []string{"of Node.SecretID", "of ACLToken.SecretID", "of Allocation.SignedIdentities", "of CSIVolume.Secrets", "of CSIVolume.MountOptions.MountFlags",
		"of ACLAuthMethod.Config.OIDCClientSecret",
		"of ACLAuthMethod.Config.OIDCClientAssertion.PrivateKey.PemKey", "of ACLAuthMethod.Config.OIDCClientAssertion.ClientSecret",
		"RootKey.WrappedKeys.KeyEncryptionKey"} {
		at := strings.Index(before, secret)
		if at < 0 {
			t.Errorf("the archive has no %s", secret)
		}
		// A longer name is another field.
		for rest := after; ; {
			i := strings.Index(rest, secret)
			if i < 0 {
				break
			}
			rest = rest[i+len(secret):]
			if rest == "" || rest[0] < 'A' || rest[0] > 'z' {
				t.Errorf("%s is in the redacted archive", secret)
				break
			}
		}
	}
}
