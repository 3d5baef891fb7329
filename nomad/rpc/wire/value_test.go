package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestReadValue_One(t *testing.T) {
	values := []any{
		nil, true, false, 0, 127, 128, 70000, int64(1) << 40, -1, -33, -200, -70000, int64(-1) << 40, 1.5, float32(2.5),
		uint8(200), uint16(60000), uint32(1 << 31), uint64(1) << 63,
		"", "short", strings.Repeat("x", 31), strings.Repeat("x", 32), strings.Repeat("x", 70000), []byte{1, 2, 3},
		[]int{}, []int{1, 2, 3}, make([]int, 20), make([]int, 70000),
		map[string]int{}, map[string]any{"a": []any{1, map[string]any{"b": nil}}, "c": "d"},
		time.Unix(1, 2), &message.JobRegisterRequest{Job: &nomad.Job{ID: "a", Payload: []byte("p")}},
	}
	var wire bytes.Buffer
	var want [][]byte
	for _, v := range values {
		b, err := codec.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, b)
		wire.Write(b)
	}
	in := bufio.NewReader(&wire)
	for i := range want {
		got, err := ReadValue(in, nil, &Intake{Limit: MaxRequest})
		if err != nil || !bytes.Equal(got, want[i]) {
			t.Fatalf("readValue() of %T %v = %d bytes, %v, want %d bytes", values[i], values[i], len(got), err, len(want[i]))
		}
	}
	if _, err := ReadValue(in, nil, &Intake{Limit: MaxRequest}); err != io.EOF {
		t.Errorf("readValue() at the end = %v, want EOF", err)
	}
}

func TestReadValue_Forms(t *testing.T) {
	// Encodings that our encoder never uses but others may use.
	for name, wire := range map[string][]byte{
		"bin8":     {0xc4, 2, 'a', 'b'},
		"bin16":    {0xc5, 0, 1, 'a'},
		"bin32":    {0xc6, 0, 0, 0, 1, 'a'},
		"str8":     {0xd9, 1, 'a'},
		"fixext1":  {0xd4, 5, 1},
		"fixext16": append([]byte{0xd8, 5}, make([]byte, 16)...),
		"ext8":     {0xc7, 2, 5, 1, 2},
		"ext16":    {0xc8, 0, 1, 5, 1},
		"ext32":    {0xc9, 0, 0, 0, 1, 5, 1},
		"map16":    {0xde, 0, 1, 0xa1, 'k', 0xc0},
		"map32":    {0xdf, 0, 0, 0, 1, 0xa1, 'k', 0xc0},
		"array32":  {0xdd, 0, 0, 0, 2, 1, 2},
	} {
		got, err := ReadValue(bufio.NewReader(bytes.NewReader(append(wire, 0x01))), nil, &Intake{Limit: MaxRequest})
		if err != nil || !reflect.DeepEqual(got, wire) {
			t.Errorf("%s: ReadValue() = %x, %v, want %x", name, got, err, wire)
		}
	}
}

func TestReadValue_Refuses(t *testing.T) {
	for name, c := range map[string]struct {
		wire []byte
		want error
	}{
		"string beyond the limit":   {[]byte{0xdb, 0x7f, 0xff, 0xff, 0xff}, ErrTooLarge},
		"array beyond the limit":    {[]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, ErrTooLarge},
		"map beyond the limit":      {[]byte{0xdf, 0x7f, 0xff, 0xff, 0xff}, ErrTooLarge},
		"string cut short":          {[]byte{0xda, 0x10, 0, 'a'}, io.ErrUnexpectedEOF},
		"map cut short":             {[]byte{0x82, 0xa1, 'k'}, io.ErrUnexpectedEOF},
		"length cut short":          {[]byte{0xdb, 0}, io.ErrUnexpectedEOF},
		"nested arrays never end":   {bytes.Repeat([]byte{0x91}, 1<<16), io.ErrUnexpectedEOF},
		"many arrays that multiply": {bytes.Repeat([]byte{0xdd, 0x03, 0xff, 0xff, 0xff}, 64), ErrTooLarge},
	} {
		_, err := ReadValue(bufio.NewReader(bytes.NewReader(c.wire)), nil, &Intake{Limit: MaxRequest})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: ReadValue() = %v, want %v", name, err, c.want)
		}
	}
	if _, err := ReadValue(bufio.NewReader(bytes.NewReader([]byte{0xc1})), nil, &Intake{Limit: MaxRequest}); err == nil {
		t.Error("readValue() accepted a byte that does not begin a value")
	}
}

func TestReadValue_Allocations(t *testing.T) {
	claim := []byte{0xdb, 0x03, 0xff, 0xff, 0xff} // a string of nearly 64 MiB, of which nothing arrives
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := ReadValue(bufio.NewReader(bytes.NewReader(claim)), nil, &Intake{Limit: MaxRequest}); err == nil {
			t.Fatal("readValue() accepted a string that never arrived")
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 100*(ReadStep+16<<10) {
		t.Errorf("100 claims allocated %d bytes", used)
	}
}
