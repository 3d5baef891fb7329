package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// An entry says the same with and without its zero fields, whatever the command, and
// what is empty but not nil is read so.
func TestSparseEntries(t *testing.T) {
	commands, smaller := 0, 0
	for number := range nomad.MessageType(128) {
		_, empty, err := fsm.DecodeCommand([]byte{byte(number), 0x80})
		if err != nil || reflect.TypeOf(empty).Kind() != reflect.Pointer {
			continue // nothing is known of its body
		}
		commands++
		for seed := range uint64(50) {
			v := reflect.New(reflect.TypeOf(empty).Elem())
			someValue(rand.New(rand.NewPCG(seed, uint64(number))), v.Elem(), 0)
			entry, err := nomad.EncodeCommand(number, v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			plain, err := nomad.Encode(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			want := reflect.New(v.Type().Elem()).Interface()
			if err := nomad.Decode(plain, want); err != nil {
				t.Fatal(err)
			}
			for how, decode := range map[string]func([]byte, any) error{"by the codec": nomad.Decode, "as a command": nomad.DecodeSparse} {
				got := reflect.New(v.Type().Elem()).Interface()
				if err := decode(entry[1:], got); err != nil || entry[0]&^byte(nomad.IgnoreUnknownTypeFlag) != byte(number) {
					t.Fatalf("%T %s: %v", got, how, err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%T %s, seed %d, differs at %s", got, how, seed, difference(reflect.ValueOf(got), reflect.ValueOf(want)))
				}
			}
			if len(entry) < len(plain) {
				smaller++
			}
		}
	}
	if commands < 25 || smaller < commands*25 {
		t.Errorf("%d commands were tried, %d entries are smaller: too few to say anything", commands, smaller)
	}
}

// Whatever an entry is, it is decoded as the codec does: entries of older servers have
// all fields, those of damaged logs anything.
func TestEntriesOfOthers(t *testing.T) {
	read, refused := 0, 0
	compare := func(body []byte, fresh func() any) {
		t.Helper()
		want, got := fresh(), fresh()
		wantErr, err := nomad.Decode(body, want), nomad.DecodeSparse(body, got)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%x: %T: %v, by the codec %v", body, got, err, wantErr)
		}
		if err != nil {
			refused++
			return
		}
		read++
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%x: %T differs at %s", body, got, difference(reflect.ValueOf(got), reflect.ValueOf(want)))
		}
	}
	for number := range nomad.MessageType(128) {
		_, empty, err := fsm.DecodeCommand([]byte{byte(number), 0x80})
		if err != nil || reflect.TypeOf(empty).Kind() != reflect.Pointer {
			continue
		}
		fresh := func() any { return reflect.New(reflect.TypeOf(empty).Elem()).Interface() }
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, uint64(number)))
			v := fresh()
			someValue(r, reflect.ValueOf(v).Elem(), 0)
			plain, err := nomad.Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			entry, err := nomad.EncodeCommand(number, v)
			if err != nil {
				t.Fatal(err)
			}
			compare(plain, fresh)
			for _, body := range [][]byte{plain, entry[1:]} {
				for range 40 {
					bad := bytes.Clone(body)
					bad[r.IntN(len(bad))] = byte(r.IntN(256))
					compare(bad[:r.IntN(2*len(bad)+1)%(len(bad)+1)], fresh)
				}
			}
		}
	}
	if read < 1000 || refused < 1000 {
		t.Errorf("%d entries were read, %d refused: too few to say anything", read, refused)
	}
}

// difference says where two values differ first, and how.
func difference(got, want reflect.Value) string {
	switch {
	case got.Kind() != want.Kind():
	case got.Kind() == reflect.Pointer && !got.IsNil() && !want.IsNil():
		return difference(got.Elem(), want.Elem())
	case got.Kind() == reflect.Struct:
		for i := range got.NumField() {
			if f := got.Type().Field(i); f.IsExported() && !reflect.DeepEqual(got.Field(i).Interface(), want.Field(i).Interface()) {
				return "." + f.Name + difference(got.Field(i), want.Field(i))
			}
		}
	case got.Kind() == reflect.Slice && got.Len() == want.Len():
		for i := range got.Len() {
			if !reflect.DeepEqual(got.Index(i).Interface(), want.Index(i).Interface()) {
				return fmt.Sprint("[", i, "]", difference(got.Index(i), want.Index(i)))
			}
		}
	}
	return fmt.Sprintf(": %#v, with all fields %#v", got, want)
}

// someValue sets a value to something of chance: often to nothing, or to nothing but empty.
func someValue(r *rand.Rand, v reflect.Value, depth int) {
	if r.IntN(4) == 0 || depth > 9 {
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(r.IntN(1e9)), 5).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		someValue(r, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				someValue(r, v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		n := []int{0, 1, 2, 17, 40}[r.IntN(5)]
		if depth > 3 {
			n = min(n, 1)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			someValue(r, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			k, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			someValue(r, k, 8)
			someValue(r, item, depth+1)
			v.SetMapIndex(k, item)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf([]any{"text", 1.5, true, map[string]any{"a": int64(200)}, []any{"x", -7}}[r.IntN(5)]))
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("%*d", []int{1, 2, 5, 31, 32, 300}[r.IntN(6)], r.IntN(9)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	default:
		if n := r.Uint64() >> r.IntN(64); v.CanInt() {
			v.SetInt(int64(n) * int64(1-2*r.IntN(2)))
		} else if v.CanUint() {
			v.SetUint(n)
		}
	}
}

// 64 thousand numbers where structs of 2 KiB are expected are refused before there is room
// for as many of those.
func TestDecodeMakesNoRoomForWhatIsClaimed(t *testing.T) {
	type large struct{ A, B, C, D [64]uint64 }
	type list struct{ Items []large }
	body := append([]byte("\x81\xa5Items\xdc\xff\xff"), make([]byte, 65535)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := nomad.DecodeSparse(body, new(list)); err == nil {
		t.Error("numbers were read as structs")
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes were allocated for a message of %d", took, len(body))
	}
}
