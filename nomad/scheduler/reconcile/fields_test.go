package reconcile_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// fullJob returns a job with a value in each of its fields.
func fullJob() *nomad.Job {
	j := &nomad.Job{}
	fill(reflect.ValueOf(j).Elem(), 0)
	tg := j.TaskGroups[0]
	plain := *tg.Services[0]
	plain.Name, plain.Connect = "plain", nil
	tg.Services = append(tg.Services, &plain)
	return j
}

// fill sets every field of a value. Types that contain themselves end at a depth.
func fill(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Interface:
		v.Set(reflect.ValueOf("a"))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		elem := reflect.New(v.Type().Elem()).Elem()
		fill(elem, depth+1)
		v.SetMapIndex(reflect.ValueOf("a").Convert(v.Type().Key()), elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	}
}

// alter gives a filled value another one: it adds an element, or removes what a pointer refers to, or sets it.
func alter(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("b")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(2)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(2)
	case reflect.Pointer:
		if v.IsNil() {
			fill(v, 0)
		} else {
			v.SetZero()
		}
	case reflect.Slice:
		more := reflect.New(v.Type().Elem()).Elem()
		fill(more, 1)
		v.Set(reflect.Append(v, more))
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		fill(elem, 1)
		v.SetMapIndex(reflect.ValueOf("b").Convert(v.Type().Key()), elem)
	case reflect.Struct:
		v.SetZero()
	default:
		t.Fatalf("a field of type %v", v.Type())
	}
}

// partsOf returns the parts of a job whose fields the data file lists.
func partsOf(j *nomad.Job) map[string]any {
	tg := j.TaskGroups[0]
	task, net := tg.Tasks[0], tg.Networks[0]
	return map[string]any{
		"job": j, "group": tg, "disk": tg.EphemeralDisk, "network": net, "static-port": &net.ReservedPorts[0],
		"dynamic-port": &net.DynamicPorts[0], "group-consul": tg.Consul, "volume": tg.Volumes["a"], "group-restart": tg.RestartPolicy,
		"service": tg.Services[0], "connect": tg.Services[0].Connect, "sidecar": tg.Services[0].Connect.SidecarService,
		"plain-service": tg.Services[1], "task": task, "logs": task.LogConfig, "restart": task.RestartPolicy,
		"resources": task.Resources, "task-network": task.Resources.Networks[0], "vault": task.Vault, "secret": task.Secrets[0],
		"template": task.Templates[0],
	}
}

// TestEachField changes each field of testdata/fields.txt, and back. The file names every field.
func TestEachField(t *testing.T) {
	raw, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		part, field, effect := words[0], words[1], words[2]
		listed[part] = append(listed[part], field)
		t.Run(part+" "+field, func(t *testing.T) { changeField(t, part, field, effect) })
	}
	for part, is := range partsOf(fullJob()) {
		var fields []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(is).Elem()) {
			if f.IsExported() {
				fields = append(fields, f.Name)
			}
		}
		slices.Sort(fields)
		if !slices.Equal(fields, listed[part]) {
			t.Errorf("the fields of %s are %v, listed are %v", part, fields, listed[part])
		}
	}
}

func changeField(t *testing.T, part, field, effect string) {
	was, is := fullJob(), fullJob()
	v := reflect.ValueOf(partsOf(is)[part]).Elem().FieldByName(field)
	if !v.IsValid() {
		t.Fatal("there is no such field")
	}
	if effect == "parts" {
		return
	}
	alter(t, v)
	if reflect.DeepEqual(was, is) {
		t.Fatal("nothing has changed")
	}
	for _, pair := range [][2]*nomad.Job{{was, is}, {is, was}} {
		got := reconcile.GroupChanged(pair[0], pair[0].TaskGroups[0], pair[1], pair[1].TaskGroups[0])
		if got != (effect == "replace") {
			t.Errorf("GroupChanged() = %v, want %s", got, effect)
		}
	}
}
