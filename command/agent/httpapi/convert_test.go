package httpapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad"
)

// byJSON is what a conversion is held to.
func byJSON(t testing.TB, in *api.Job) *nomad.Job {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out nomad.Job
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// asReceived is a job as the API decodes it from a request.
func asReceived(t testing.TB, in *api.Job) *api.Job {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out api.Job
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// everything is a job in which each block is used.
func everything(t testing.TB) *api.Job {
	t.Helper()
	src, err := os.ReadFile("../../../jobspec/testdata/everything.hcl")
	if err != nil {
		t.Fatal(err)
	}
	in, err := jobspec.Parse(jobspec.Config{Filename: "everything.hcl", Source: src, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return asReceived(t, in)
}

// A job is the same whether it crosses as JSON or field by field: the one that has
// everything, and jobs of chance.
func TestJobCrossesAsJSONWould(t *testing.T) {
	jobs := []*api.Job{{}, everything(t)}
	for seed := range uint64(200) {
		var j api.Job
		fill(rand.New(rand.NewPCG(seed, 1)), reflect.ValueOf(&j).Elem(), 0)
		jobs = append(jobs, asReceived(t, &j))
	}
	for i, in := range jobs {
		for range 2 { // as it came, and canonical
			want := byJSON(t, in)
			got, err := toJob(in)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("job %d differs:\n%s\nby JSON\n%s", i, shown(t, got), shown(t, want))
			}
			in.Canonicalize()
		}
	}
}

func shown(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fill sets a value to something of chance: often to nothing, or to nothing but empty.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	if r.IntN(4) == 0 || depth > 9 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(r, v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(r, v.Index(i), depth+1)
			if v.Index(i).Kind() == reflect.Pointer && v.Index(i).IsNil() {
				v.Index(i).Set(reflect.New(v.Index(i).Type().Elem())) // none is there: nomad.Whole refuses it
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for n := range r.IntN(3) {
			item := reflect.New(v.Type().Elem()).Elem()
			fill(r, item, depth+1)
			if item.Kind() == reflect.Pointer && item.IsNil() {
				item.Set(reflect.New(item.Type().Elem()))
			}
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", n)).Convert(v.Type().Key()), item)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{"text", 1.5, true, map[string]any{"a": "b"}, []any{"x"}}[r.IntN(5)]))
	case reflect.String:
		v.SetString(fmt.Sprint("s", r.IntN(9)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	default:
		if v.CanInt() {
			v.SetInt(int64(r.IntN(100)))
		} else if v.CanUint() {
			v.SetUint(uint64(r.IntN(100)))
		}
	}
}

// What fits neither by its kind nor by its size is an error that names the field.
func TestConvertRefuses(t *testing.T) {
	type small struct{ N int8 }
	type large struct{ N int64 }
	type unsigned struct{ N uint16 }
	type text struct{ N string }
	for name, err := range map[string]error{
		"too large":    convert(new(small), &large{300}),
		"negative":     convert(new(unsigned), &large{-1}),
		"too long":     convert(new(unsigned), &large{1 << 16}),
		"another kind": convert(new(small), &text{"1"}),
	} {
		if err == nil || !strings.Contains(err.Error(), "N: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var got small
	if err := convert(&got, &large{-7}); err != nil || got.N != -7 {
		t.Errorf("-7 became %d: %v", got.N, err)
	}
}

// BenchmarkToJob carries a small job across, as each registration does.
func BenchmarkToJob(b *testing.B) {
	in := smallJob(b)
	for b.Loop() {
		if _, err := toJob(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkByJSON is what BenchmarkToJob is to be compared with.
func BenchmarkByJSON(b *testing.B) {
	in := smallJob(b)
	for b.Loop() {
		byJSON(b, in)
	}
}

// smallJob is a canonical job of one task.
func smallJob(t testing.TB) *api.Job {
	t.Helper()
	job := &api.Job{ID: new("job"), Type: new(nomad.JobTypeBatch), TaskGroups: []*api.TaskGroup{{Name: new("group"),
		Tasks: []*api.Task{{Name: "task", Driver: "mock_driver", Config: map[string]any{"run_for": "1s"}}}}}}
	job = asReceived(t, job)
	job.Canonicalize()
	return job
}
