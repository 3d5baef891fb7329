package snapshot_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// records returns a stream with a row of most types.
func records(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	out := fsm.NewRecordWriter(&buf)
	put := func(kind byte, row any) {
		t.Helper()
		if err := out.Write(kind, row); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Header(); err != nil {
		t.Fatal(err)
	}
	put(2, &nomad.IndexEntry{Key: "jobs", Value: 70})
	put(2, &nomad.IndexEntry{Key: "later", Value: 71})
	put(0, &nomad.Node{ID: "n1", SecretID: "hidden-node", NodePool: "default", SchedulingEligibility: "eligible"})
	put(1, &nomad.Job{ID: "j", Namespace: "default", NodePool: "default", ModifyIndex: 7, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 2,
		Tasks: []*nomad.Task{{Name: "t", CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: "ebs", Type: csi.PluginNode}}}}}})
	put(4, &nomad.Allocation{ID: "a1", Namespace: "default", JobID: "j", SignedIdentities: map[string]string{"t": "hidden-jwt"}})
	put(30, &rootkey.Key{KeyID: "k1", State: "active", WrappedKeys: []*rootkey.Wrapped{{Provider: "aead", ProviderID: "aead",
		WrappedDataEncryptionKey: &rootkey.BlobInfo{Ciphertext: []byte("c")}, KeyEncryptionKey: []byte("hidden-kek")}}})
	put(11, &rbac.Policy{Name: "p1", Rules: "agent { policy = \"read\" }", JobACL: &rbac.JobACL{Namespace: "default"}})
	end := time.Date(2027, 1, 2, 3, 4, 5, 6, time.UTC)
	put(12, &rbac.Token{AccessorID: "t1", SecretID: "hidden-token", Roles: []*rbac.TokenRoleLink{{ID: "r1"}}, CreateTime: end,
		ExpirationTime: &end})
	put(25, &rbac.Role{ID: "r1", Name: "r", Policies: []*rbac.RolePolicyLink{{Name: "p1"}}})
	put(26, &rbac.AuthMethod{Name: "m1",
		Config: &rbac.AuthMethodConfig{OIDCClientSecret: "hidden-oidc", OIDCClientAssertion: &rbac.OIDCClientAssertion{
			ClientSecret: "hidden-assertion", PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: "hidden-pem"}}}})
	put(27, &rbac.BindingRule{ID: "b1", AuthMethod: "m1"})
	put(22, &variable.Encrypted{Metadata: variable.Metadata{Namespace: "default", Path: "a/b", ModifyIndex: 7,
		Lock: &variable.Lock{ID: "l", TTL: time.Minute}},
		Ciphertext: variable.Ciphertext{Data: []byte("hidden-data"), KeyID: "k1"}})
	put(23, &variable.Quota{Namespace: "default", Size: 11, ModifyIndex: 7})
	put(6, &nomad.PeriodicLaunch{Namespace: "default", ID: "j", Launch: end, CreateIndex: 7, ModifyIndex: 7})
	put(16, &nomad.ScalingPolicy{ID: "s1", Type: "horizontal", Target: map[string]string{"Namespace": "default", "Job": "j", "Group": "g"},
		Policy: map[string]any{"cooldown": "1m"}, Max: 3})
	put(19, &nomad.JobScalingEvents{Namespace: "default", JobID: "j",
		ScalingEvents: map[string][]*nomad.ScalingEvent{"g": {{Time: 5, Message: "m"}}}})
	put(21, &catalog.Registration{ID: "s1", ServiceName: "db", Namespace: "default", NodeID: "n1", AllocID: "a1", Tags: []string{"x"},
		Port: 80, ModifyIndex: 7})
	put(31, &hostvolume.Volume{ID: "v1", Namespace: "default", Name: "data", NodeID: "n1", Parameters: map[string]string{"mode": "0700"},
		State: "ready", ModifyIndex: 7})
	plugin := csi.NewPlugin("ebs").WithJob(csi.PluginNode, csi.JobDescription{Namespace: "default", ID: "j", Expected: 2})
	plugin.ModifyIndex = 7
	put(17, plugin)
	v := &csi.Volume{ID: "db", Namespace: "default", PluginID: "ebs", Sealed: &csi.Sealed{KeyID: "k1", Data: []byte("hidden-sealed")},
		Secrets: csi.Secrets{"k": "hidden-secret"}, MountOptions: &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"hidden-flag"}}}
	v.Canonicalize()
	put(18, v)
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func metaOf(state []byte) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{Version: 1, ID: "2-70-1", Index: 70, Term: 2, Size: int64(len(state)), Peers: []byte{0x90},
		Configuration: raft.Configuration{Servers: []raft.Server{{ID: "s1", Address: "127.0.0.1:4647"}}}, ConfigurationIndex: 1}
}

// archive returns an archive of a state.
func archive(t testing.TB, state []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	digest, err := snapshot.Write(&buf, metaOf(state), bytes.NewReader(state))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := snapshot.Digest(bytes.NewReader(buf.Bytes())); err != nil || again != digest || !strings.HasPrefix(digest, "sha-256=") {
		t.Errorf("Write() = %q, the digest is %q, %v", digest, again, err)
	}
	return buf.Bytes()
}

// open opens an archive and reads its state.
func open(t testing.TB, raw []byte) (*snapshot.Archive, []byte, error) {
	t.Helper()
	dir := t.TempDir()
	a, state, err := openIn(t, dir, raw)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s was not removed", left[0].Name())
	}
	return a, state, err
}

// openIn is open with a directory that is used repeatedly.
func openIn(t testing.TB, dir string, raw []byte) (*snapshot.Archive, []byte, error) {
	t.Helper()
	a, err := snapshot.Open(bytes.NewReader(raw), dir)
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { a.Close() })
	r, err := a.State()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return a, got, nil
}

func TestRoundTrip(t *testing.T) {
	want := records(t)
	raw := archive(t, want)
	if !bytes.Equal(raw, archive(t, want)) {
		t.Error("the same state gives different archives")
	}
	a, got, err := open(t, raw)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("Open() = %v, %d bytes of state, want %d", err, len(got), len(want))
	}
	if fmt.Sprint(a.Meta) != fmt.Sprint(*metaOf(want)) {
		t.Errorf("meta is %+v", a.Meta)
	}
	if err := a.Check(); err != nil {
		t.Errorf("Check() = %v", err)
	}
}

// TestNothingIsLost restores an archive and writes the state again.
// Every record must be present and unchanged.
func TestNothingIsLost(t *testing.T) {
	before := records(t)
	store, err := fsm.ReadSnapshot(bytes.NewReader(before), nil)
	if err != nil {
		t.Fatal(err)
	}
	var after bytes.Buffer
	if err := fsm.WriteSnapshot(&after, store.Snapshot()); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	_, _, err = open(t, archive(t, after.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range split(t, after.Bytes()) {
		got[rec] = true
	}
	want := split(t, before)
	if len(want) != 20 {
		t.Fatalf("the archive has %d records", len(want))
	}
	for _, rec := range want {
		if !got[rec] {
			t.Errorf("a record of type %d is lost: %q", rec[0], rec)
		}
	}
}

// split returns the records of a stream, each with its type byte.
func split(t *testing.T, stream []byte) []string {
	t.Helper()
	in, err := fsm.NewRecordReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for {
		rec, err := in.Next()
		if err == io.EOF {
			return out
		}
		var v any
		if err == nil {
			err = in.Decode(&v)
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string([]byte{rec.Type})+string(text))
	}
}

// TestEveryByte flips each byte of an archive. The archive is refused, except for a few
// insignificant bytes, with which the state is unchanged.
func TestEveryByte(t *testing.T) {
	want := records(t)
	raw := archive(t, want)
	harmless, dir := 0, t.TempDir()
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 0xff
		_, got, err := openIn(t, dir, bad)
		if err != nil {
			continue
		}
		if harmless++; !bytes.Equal(got, want) {
			t.Fatalf("byte %d of %d changed the state without an error", i, len(raw))
		}
	}
	if harmless > 16 { // time, operating system and similar fields of the gzip header
		t.Errorf("%d of %d bytes can be changed", harmless, len(raw))
	}
}

func TestTruncated(t *testing.T) {
	raw := archive(t, records(t))
	dir := t.TempDir()
	for n := range raw {
		_, _, err := openIn(t, dir, raw[:n])
		if err == nil {
			t.Fatalf("%d of %d bytes are accepted as a complete archive", n, len(raw))
		}
		if n > 20 && !strings.Contains(err.Error(), "truncated") {
			t.Fatalf("%d of %d bytes: %v", n, len(raw), err)
		}
	}
}

// file is an entry of a hand-made archive.
type file struct {
	name, text string
	kind       byte
}

// pack returns an archive of entries. An empty entry SHA256SUMS is filled with the checksums.
func pack(t *testing.T, more string, files ...file) []byte {
	t.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	w := tar.NewWriter(zip)
	sums := ""
	for _, f := range files {
		if f.name == "SHA256SUMS" && f.text == "" {
			f.text = sums
		}
		sum := sha256.Sum256([]byte(f.text))
		sums += hex.EncodeToString(sum[:]) + "  " + f.name + "\n"
		head := &tar.Header{Name: f.name, Size: int64(len(f.text)), Typeflag: f.kind, Mode: 0o600}
		if f.kind == tar.TypeSymlink {
			head.Linkname, head.Size = f.text, 0
		}
		err := w.WriteHeader(head)
		if err == nil && head.Size > 0 {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(w.Close())
	if err == nil {
		_, err = zip.Write([]byte(more))
	}
	if err = errors.Join(err, zip.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func metaText(t *testing.T, state string, change func(*raft.SnapshotMeta)) string {
	t.Helper()
	m := metaOf([]byte(state))
	if change != nil {
		change(m)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBadArchives(t *testing.T) {
	stream := string(records(t))
	meta, state, sums := file{"meta.json", metaText(t, stream, nil), '0'}, file{"state.bin", stream, '0'}, file{"SHA256SUMS", "", '0'}
	other := func(f file, text string) file { f.text = text; return f }
	good := pack(t, "", meta, state, sums)
	for name, c := range map[string]struct {
		raw  []byte
		want string // part of the error, empty for none
	}{
		"good":            {good, ""},
		"other order":     {pack(t, "", state, meta, sums), ""},
		"empty":           {nil, "not a gzip file"},
		"text":            {[]byte("hello, this is text"), "not a gzip file"},
		"not a tar":       {pack(t, "x")[:0], "not a gzip file"},
		"no entries":      {pack(t, ""), "meta.json is missing"},
		"no meta":         {pack(t, "", state, sums), "meta.json is missing"},
		"no state":        {pack(t, "", meta, sums), "state.bin is missing"},
		"no sums":         {pack(t, "", meta, state), "SHA256SUMS is missing"},
		"unknown entry":   {pack(t, "", meta, state, file{"peers.json", "[]", '0'}, sums), `unknown entry "peers.json"`},
		"entry elsewhere": {pack(t, "", meta, file{"../state.bin", stream, '0'}, sums), `unknown entry "../state.bin"`},
		"link":            {pack(t, "", meta, file{"state.bin", "/etc/passwd", tar.TypeSymlink}, sums), "not a regular file"},
		"twice":           {pack(t, "", meta, meta, state, sums), `two entries "meta.json"`},
		"sum of other text": {pack(t, "", meta, state,
			other(sums, strings.Repeat("0", 64)+"  meta.json\n"+strings.Repeat("0", 64)+"  state.bin\n")), "meta.json was modified"},
		"sum is missing":        {pack(t, "", state, sums, meta), "no checksum of meta.json"},
		"sum of something else": {pack(t, "", meta, state, other(sums, strings.Repeat("0", 64)+"  passwd\n")), "an invalid line"},
		"meta is not JSON":      {pack(t, "", other(meta, "{"), state, sums), "meta.json: "},
		"version of the future": {pack(t, "", other(meta, metaText(t, stream, func(m *raft.SnapshotMeta) { m.Version = 2 })), state, sums),
			"snapshot version 2"},
		"version of the past": {pack(t, "", other(meta, metaText(t, stream, func(m *raft.SnapshotMeta) { m.Version = 0 })), state, sums),
			"snapshot version 0"},
		"other size": {pack(t, "", other(meta, metaText(t, stream, func(m *raft.SnapshotMeta) { m.Size++ })), state, sums),
			"meta.json has size"},
		"meta too large":         {pack(t, "", other(meta, strings.Repeat(" ", 2<<20)), state, sums), "more than 1048576"},
		"data in the gzip":       {pack(t, "more", meta, state, sums), "data after the last entry"},
		"data after the gzip":    {append(bytes.Clone(good), 'x'), "data after its end"},
		"a second gzip":          {append(bytes.Clone(good), good...), "data after its end"},
		"an entry at the end":    {pack(t, string(make([]byte, 512)), meta, state, sums), "data after the last entry"},
		"sums that are too long": {pack(t, "", meta, state, other(sums, strings.Repeat("x", 1<<20))), "more than 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := open(t, c.raw)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Open() = %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Open() = %v, want %q", err, c.want)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	good := records(t)
	with := func(more ...byte) []byte { return append(bytes.Clone(good), more...) }
	row := func(kind byte, v any) []byte {
		text, err := codec.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		return with(append([]byte{kind}, text...)...)
	}
	for name, c := range map[string]struct {
		stream []byte
		want   string
	}{
		"reserved type":    {with(66, 0x80), "unrecognized snapshot type 66"},
		"last type":        {with(255, 0x80), "unrecognized snapshot type 255"},
		"event sink":       {with(20, 0x80), "type 20 (EventSink)"},
		"half a record":    {good[:len(good)-2], "unexpected EOF"},
		"no header":        {nil, "header"},
		"other form":       {with(1, 0x93, 1, 2, 3), "type 1 (Job)"},
		"a length of 4 GB": {with(1, 0xdf, 0xff, 0xff, 0xff, 0xff), "type 1 (Job)"},
		"an absent group":  {row(1, &nomad.Job{ID: "x", Namespace: "default", TaskGroups: []*nomad.TaskGroup{nil}}), `job "x"`},
		"redacted":         {row(30, &rootkey.Key{KeyID: "k2", WrappedKeys: []*rootkey.Wrapped{{Provider: "aead"}}}), "root key k2"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _, err := open(t, archive(t, c.stream))
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check() = %v, want %q", err, c.want)
			}
		})
	}
}

// TestEveryRecordByte flips bytes of the records, with correct checksums. Reading them must
// end, with or without an error.
func TestEveryRecordByte(t *testing.T) {
	good := records(t)
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= byte(1 + rng.IntN(255))
		a, _, err := openIn(t, dir, archive(t, bad))
		if err != nil {
			t.Fatal(err)
		}
		a.Check() // must return
		a.Close()
	}
}

func TestStateAt(t *testing.T) {
	a, _, err := open(t, archive(t, records(t)))
	if err != nil {
		t.Fatal(err)
	}
	r, size, err := a.StateAt(9000)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil || int64(len(raw)) != size {
		t.Fatalf("%d bytes, %v, want %d", len(raw), err, size)
	}
	store, err := fsm.ReadSnapshot(bytes.NewReader(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := store.Snapshot()
	for _, table := range state.TableNames() {
		if got := s.TableIndex(table); got != 9000 {
			t.Errorf("table %s is at %d", table, got)
		}
	}
	if got := s.TableIndex("later"); got != 71 {
		t.Errorf("the table of a later feature is at %d", got)
	}
	if s.Job(nil, "default", "j") == nil || s.Index() != 9000 {
		t.Errorf("the state is missing, or at %d", s.Index())
	}
}

func TestRedact(t *testing.T) {
	a, _, err := open(t, archive(t, records(t)))
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := a.Redact(&buf, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	b, stream, err := open(t, buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stream, []byte("hidden")) {
		t.Error("a secret remains")
	}
	if err := b.Check(); err == nil {
		t.Error("a redacted archive can be restored")
	}
	if got, want := len(split(t, stream)), len(split(t, records(t))); got != want {
		t.Errorf("%d of %d records remain", got, want)
	}
	shown := 0
	err = a.Records(func(r snapshot.Record) error {
		shown++
		text, err := json.Marshal(r.Value)
		if strings.Contains(string(text), "hidden") || strings.Contains(string(text), "aGlkZGVu") {
			t.Errorf("%s contains a secret", r.Name)
		}
		return err
	})
	if err != nil || shown != 20 {
		t.Errorf("Records() = %v after %d", err, shown)
	}
}

func TestWriteRefusesWrongSize(t *testing.T) {
	for _, n := range []int{1, 200_000} {
		meta := metaOf(make([]byte, 1000))
		if _, err := snapshot.Write(io.Discard, meta, bytes.NewReader(make([]byte, n))); err == nil {
			t.Errorf("%d bytes of state are accepted as 1000", n)
		}
	}
}
