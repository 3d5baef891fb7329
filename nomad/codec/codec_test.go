package codec_test

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestWireForm compares the output of the codec with bytes of Nomad 2.0.
func TestWireForm(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"text":             {"ab", "\xa2ab"},
		"text of 40 bytes": {strings.Repeat("x", 40), "\xda\x00\x28" + strings.Repeat("x", 40)},
		"bytes":            {[]byte("ab"), "\xa2ab"},
		"zero time":        {time.Time{}, "\xaf\x01" + strings.Repeat("\x00", 12) + "\xff\xff"},
		"negative":         {-33, "\xd0\xdf"},
		"unsigned":         {uint64(200), "\xcc\xc8"},
		"signed":           {int64(200), "\xd1\x00\xc8"},
		"duration":         {time.Second, "\xd2\x3b\x9a\xca\x00"},
		"nil slice":        {[]string(nil), "\xc0"},
		"empty slice":      {[]string{}, "\x90"},
		"keys by name":     {nomad.SnapshotHeader{}, "\x80"},
		"sorted keys":      {nomad.IndexEntry{Key: "k", Value: 1}, "\x82\xa3Key\xa1k\xa5Value\x01"},
		"embedded":         {message.GenericResponse{}, "\x81\xa5Index\x00"},
		"zero left out":    {nomad.Port{Label: "l"}, "\x81\xa5Label\xa1l"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := codec.Encode(c.value)
			if err != nil || string(got) != c.want {
				t.Fatalf("Encode() = %q, %v, want %q", got, err, c.want)
			}
			back := reflect.New(reflect.TypeOf(c.value))
			if err := codec.Decode(got, back.Interface()); err != nil || !reflect.DeepEqual(back.Elem().Interface(), c.value) {
				t.Errorf("Decode() = %v, %v", back.Elem(), err)
			}
		})
	}
	command, err := codec.EncodeCommand(message.EvalUpdateRequestType, nomad.SnapshotHeader{})
	if err != nil || !bytes.Equal(command, []byte{6, 0x80}) {
		t.Errorf("EncodeCommand() = %q, %v", command, err)
	}
}

func TestDecodeReadsAllForms(t *testing.T) {
	var s string
	for _, form := range []string{"\xa1x", "\xd9\x01x", "\xda\x00\x01x", "\xdb\x00\x00\x00\x01x", "\xc4\x01x"} {
		if err := codec.Decode([]byte(form), &s); err != nil || s != "x" {
			t.Errorf("Decode(%q) = %q, %v", form, s, err)
		}
	}
	var any map[string]any
	if err := codec.Decode([]byte("\x82\xa1a\xa1x\xa7Unknown\x90"), &any); err != nil || any["a"] != "x" {
		t.Errorf("Decode() = %v, %v", any, err)
	}
	var e nomad.IndexEntry
	if err := codec.Decode([]byte("\x83\xa3Key\xa1k\xa7Unknown\x93\x01\x02\x03\xa5Value\xc0"), &e); err != nil ||
		e != (nomad.IndexEntry{Key: "k"}) {
		t.Errorf("Decode() = %v, %v", e, err)
	}
}

// TestDecodeIsBounded decodes lengths that exceed the input. They are errors, and no memory is
// allocated for them.
func TestDecodeIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		into  any
	}{
		"nothing":     {"", new(string)},
		"cut text":    {"\xdb\x7f\xff\xff\xffx", new(string)},
		"cut bytes":   {"\xc6\x7f\xff\xff\xffx", new([]byte)},
		"long list":   {"\xdd\x7f\xff\xff\xff\xa1x", new([]string)},
		"long map":    {"\xdf\x7f\xff\xff\xff\xa1x\xa1y", new(map[string]string)},
		"long plan":   {"\x81\xadAllocsUpdated\xdd\x7f\xff\xff\xff\xc0", new(message.ApplyPlanResultsRequest)},
		"wrong kind":  {"\x93\x01\x02\x03", new(nomad.Evaluation)},
		"broken time": {"\x81\xa9WaitUntil\xa3abc", new(nomad.Evaluation)},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := codec.Decode([]byte(c.input), c.into)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("Decode() succeeds")
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 8<<20 {
				t.Errorf("%d bytes were allocated", taken)
			}
		})
	}
}

func TestCodecIsConcurrent(t *testing.T) {
	var wait sync.WaitGroup
	for n := range 8 {
		wait.Go(func() {
			want := nomad.IndexEntry{Key: strings.Repeat("k", n*50), Value: uint64(n)}
			for range 200 {
				raw, err := codec.Encode(want)
				var got nomad.IndexEntry
				if err = errors.Join(err, codec.Decode(raw, &got)); err != nil || got != want {
					t.Errorf("got %v, %v", got, err)
					return
				}
			}
		})
	}
	wait.Wait()
}

// TestDecodedSharesNoMemory checks that a decoded value does not refer to the decoded bytes. Their
// buffer is reused.
func TestDecodedSharesNoMemory(t *testing.T) {
	job := &nomad.Job{ID: "web", Meta: map[string]string{"team": "infra"}, Payload: []byte("payload"),
		TaskGroups: []*nomad.TaskGroup{{Name: "group", Tasks: []*nomad.Task{{Name: "task", Config: map[string]any{
			"command": "/bin/true", "args": []any{"one", []byte("two")}, "nested": map[string]any{"key": []map[string]any{{"deep": "text"}}}}}}}}}
	req := &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global", AuthToken: "secret"}}
	text, err := codec.Encode(req)
	if err != nil {
		t.Fatal(err)
	}
	var got, want message.JobRegisterRequest
	if err := errors.Join(codec.Decode(bytes.Clone(text), &want), codec.Decode(text, &got)); err != nil {
		t.Fatal(err)
	}
	for i := range text {
		text[i] = 'x'
	}
	if !reflect.DeepEqual(got, want) || got.Job.TaskGroups[0].Tasks[0].Config["command"] != "/bin/true" {
		t.Errorf("after its bytes were overwritten the task is %+v", got.Job.TaskGroups[0].Tasks[0])
	}
}

// TestDecodeBoundsPreallocation decodes 64 thousand numbers into a list of structs of
// 2 KiB. The codec must not allocate all of them before the first fails.
func TestDecodeBoundsPreallocation(t *testing.T) {
	type large struct{ A, B, C, D [64]uint64 }
	type list struct{ Items []large }
	body := append([]byte("\x81\xa5Items\xdc\xff\xff"), make([]byte, 65535)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := codec.Decode(body, new(list)); err == nil {
		t.Error("numbers were decoded as structs")
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes were allocated for a message of %d", took, len(body))
	}
}

// hidden calls found with the fields of a type, and of the types that it contains, that are not in JSON.
func hidden(t reflect.Type, seen map[reflect.Type]bool, found func(in reflect.Type, f reflect.StructField)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		hidden(t.Elem(), seen, found)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for _, f := range reflect.VisibleFields(t) {
			if f.Tag.Get("json") == "-" {
				found(t, f)
			}
			hidden(f.Type, seen, found)
		}
	}
}

// TestJSON_Hidden checks that fields that are not in JSON are not in the API either. The codec does not read the tag json.
func TestJSON_Hidden(t *testing.T) {
	n := 0
	for _, v := range []any{nomad.Job{}, nomad.Node{}, nomad.Allocation{}, nomad.Deployment{}, nomad.Evaluation{},
		catalog.Registration{}, csi.Volume{}, csi.Plugin{}} {
		hidden(reflect.TypeOf(v), map[reflect.Type]bool{}, func(in reflect.Type, f reflect.StructField) {
			n++
			if f.Tag.Get("http") != "-" {
				t.Errorf("%s.%s has the tag json:\"-\": it also needs http:\"-\"", in, f.Name)
			}
		})
	}
	if n < 4 {
		t.Errorf("%d fields have the tag, want at least those of Job and Node", n)
	}
	node := nomad.Node{Session: &nomad.NodeSession{}, IdentitiesSince: 7, Key: []byte("key"), HadConsul: true}
	claims := map[string]*csi.Claim{"a": {}}
	volume := csi.Volume{Sealed: &csi.Sealed{KeyID: "k"}, ReadClaims: claims, WriteClaims: claims, PastClaims: claims}
	for _, v := range []any{nomad.Job{Registrant: &nomad.Registrant{Management: true}}, node, volume} {
		text, err := codec.EncodeJSON(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Registrant", "Session", "IdentitiesSince", `"Key"`, "HadConsul", "Sealed", "Claims"} {
			if strings.Contains(string(text), name) {
				t.Errorf("the JSON of a %T has the hidden field %s", v, name)
			}
		}
	}
}

// TestJSONBuffers checks that a buffer is not shared with earlier or concurrent values, and that large buffers are not
// kept.
func TestJSONBuffers(t *testing.T) {
	first, err := codec.EncodeJSON(nomad.IndexEntry{Key: "first"})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // one of them uses the buffer of the first value
		if _, err := codec.EncodeJSON(nomad.IndexEntry{Key: "later"}); err != nil {
			t.Fatal(err)
		}
	}
	large := strings.Repeat("x", 4<<20)
	var wait sync.WaitGroup
	for n := range 8 {
		wait.Go(func() {
			key := strings.Repeat("k", n*500)
			want := `{"Key":"` + key + `","Value":7}`
			for range 200 {
				err := codec.WithJSON(nomad.IndexEntry{Key: key, Value: 7}, func(text []byte) {
					if string(text) != want {
						t.Errorf("got %s, want %s", text, want)
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if err := codec.WithJSON(large, func(text []byte) {
		if len(text) != len(large)+2 {
			t.Errorf("%d bytes, want %d", len(text), len(large)+2)
		}
	}); err != nil {
		t.Error(err)
	}
	if string(first) != `{"Key":"first","Value":0}` {
		t.Errorf("the first text has become %s", first)
	}
}

// Encoded values share no memory with later ones, and keep no larger buffer alive.
func TestEncodedAlone(t *testing.T) {
	long, short := strings.Repeat("l", 40<<10), strings.Repeat("s", 40<<10)
	first, err := codec.Encode(long)
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(first)
	for range 8 {
		second, err := codec.EncodeCommand(message.JobRegisterRequestType, short)
		if err != nil {
			t.Fatal(err)
		}
		if len(second) == 0 || second[0] != byte(message.JobRegisterRequestType) {
			t.Errorf("the command begins with %v, want its type", second[:1])
		}
		if spare := cap(second) - len(second); spare > len(second)/4 {
			t.Errorf("%d bytes have %d bytes of spare capacity", len(second), spare)
		}
	}
	if !bytes.Equal(first, before) {
		t.Error("an encoded value has changed")
	}
}
