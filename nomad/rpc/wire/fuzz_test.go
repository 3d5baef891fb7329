package wire

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// FuzzRequest reads arbitrary bytes as a request. No input may panic. A value that was read
// must be decoded or refused.
func FuzzRequest(f *testing.F) {
	good, err := codec.Encode(&message.JobRegisterRequest{Job: &nomad.Job{ID: "a",
		TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{{Config: map[string]any{"x": []any{1, "y"}}}}}}}})
	if err != nil {
		f.Fatal(err)
	}
	nested := append([]byte("\x81\xa3Job\x81\xaaTaskGroups\x91\x81\xa5Tasks\x91\x81\xa6Config\x81\xa1a"), bytes.Repeat([]byte{0x91}, 3_000)...)
	for _, seed := range [][]byte{good, good[:len(good)/2], append(nested, 0xc0), bytes.Repeat([]byte{0x81, 0xc0}, 999), {0xc0}, {0x80},
		{0x90}, {0xc1}, {},
		{0xdf, 0xff, 0xff, 0xff, 0xff}, {0xd6, 0xff, 0, 0, 0, 0}, []byte("\x81\xa3Job\xc7\x0c\xff" + "xxxxxxxxxxxx"),
		[]byte("\x81\xa3Job\x91\xc0"), []byte("\x81\xaaTaskGroups\x93\xc0\x01\xa1x")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		body, err := ReadValue(bufio.NewReader(bytes.NewReader(wire)), nil, &Intake{Limit: MaxRequest})
		if err != nil {
			return
		}
		if !bytes.HasPrefix(wire, body) {
			t.Fatalf("readValue() = %x, which is not the beginning of %x", body, wire)
		}
		var req message.JobRegisterRequest
		if codec.Decode(body, &req) == nil {
			codec.CheckNulls(&req) //nolint:errcheck // only that it returns matters
		}
		var update message.AllocUpdateRequest
		if codec.Decode(body, &update) == nil {
			codec.CheckNulls(&update) //nolint:errcheck // only that it returns matters
		}
	})
}

// A request may contain only a limited number of values that need hundreds of bytes of memory
// for one byte.
func TestReadValue_Growth(t *testing.T) {
	const limit = 1 << 20
	long := func(c byte, n int) []byte {
		return append([]byte{0xdd, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, bytes.Repeat([]byte{c}, n)...)
	}
	for name, tt := range map[string]struct {
		wire []byte
		ok   bool
	}{
		"empty maps":       {long(0x80, limit/bytesPerContainer), false},
		"empty lists":      {long(0x90, limit/bytesPerContainer), false},
		"nothing":          {long(0xc0, limit/bytesPerNil+1), false},
		"some empty maps":  {long(0x80, limit/bytesPerContainer-1), true},
		"some nothing":     {long(0xc0, limit/bytesPerNil), true},
		"numbers cost one": {long(0x01, limit/2), true},
	} {
		_, err := ReadValue(bufio.NewReader(bytes.NewReader(tt.wire)), nil, &Intake{Limit: limit})
		if (err == nil) != tt.ok {
			t.Errorf("%s: ReadValue() = %v, want ok %v", name, err, tt.ok)
		}
	}
}
