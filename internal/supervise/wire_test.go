package supervise

import (
	"bytes"
	"reflect"
	"testing"
)

// TestRequest checks that a request is read as written, with and without separate parts, and the
// next request after it.
func TestRequest(t *testing.T) {
	start := &request{Seq: 7, Op: opStart, Spec: &Spec{ID: "a", Entry: "e", Policy: []byte("\xff\x00{"), Declared: []byte(`{"Canary":1}`)}}
	next := &request{Seq: 8, Op: opTask, ID: "a"}
	for _, apart := range []bool{true, false} {
		var wire bytes.Buffer
		for _, r := range []*request{start, next} {
			if err := writeRequest(&wire, r, apart); err != nil {
				t.Fatal(err)
			}
		}
		if verbatim := bytes.Contains(wire.Bytes(), start.Spec.Policy); verbatim != apart {
			t.Errorf("apart %t: the policy is unencoded: %t", apart, verbatim)
		}
		for _, want := range []*request{start, next} {
			got, err := readRequest(&wire)
			if err != nil {
				t.Fatal(err)
			}
			got.Apart = false
			if !reflect.DeepEqual(got, want) {
				t.Errorf("apart %t: read %+v, want %+v", apart, got, want)
			}
		}
	}
	if start.Spec.Policy == nil || start.Apart {
		t.Error("the caller's request was changed")
	}
}

// TestBrokenRequest checks that a truncated request, and parts without a Spec, are errors.
func TestBrokenRequest(t *testing.T) {
	var frames bytes.Buffer
	if err := writeRequest(&frames, &request{Op: opStart, Spec: &Spec{ID: "a", Policy: []byte("p"), Declared: []byte("{}")}},
		true); err != nil {
		t.Fatal(err)
	}
	for n := range frames.Len() {
		if _, err := readRequest(bytes.NewReader(frames.Bytes()[:n])); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, frames.Len())
		}
	}
	var empty bytes.Buffer
	if err := writeFrame(&empty, &request{Op: opStart, Apart: true}, []byte("p"), []byte("d")); err != nil {
		t.Fatal(err)
	}
	if _, err := readRequest(&empty); err == nil {
		t.Error("parts without a Spec are accepted")
	}
}
