package drivers_test

import (
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestParseSignal(t *testing.T) {
	for name, want := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "term": syscall.SIGTERM, "sigusr1": syscall.SIGUSR1,
		"SIGPWR": 30} {
		if got, err := drivers.ParseSignal(name); err != nil || got != want {
			t.Errorf("ParseSignal(%q) = %v, %v, want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "SIG", "SIGNONE", "SIGSIGTERM", "15", "SIGTERM "} {
		if got, err := drivers.ParseSignal(name); err == nil {
			t.Errorf("ParseSignal(%q) = %v, want an error", name, got)
		}
	}
	for _, name := range drivers.SignalNames() {
		if _, err := drivers.ParseSignal(name); err != nil {
			t.Errorf("ParseSignal(%q) = %v", name, err)
		}
	}
}

func TestFields(t *testing.T) {
	f := drivers.Fields{Value: cty.ObjectVal(map[string]cty.Value{
		"s": cty.StringVal("x"), "b": cty.True, "n": cty.NumberIntVal(7), "d": cty.StringVal("3s"),
		"l": cty.ListVal([]cty.Value{cty.StringVal("a"), cty.StringVal("b")}),
		"m": cty.MapVal(map[string]cty.Value{"k": cty.StringVal("v")}),
		"r": cty.ListVal([]cty.Value{cty.MapVal(map[string]cty.Value{"k": cty.StringVal("v")}),
			cty.MapVal(map[string]cty.Value{"k": cty.StringVal("w")})}),
		"0": cty.NullVal(cty.String),
	})}
	got := []any{f.String("s"), f.Bool("b"), f.Int("n"), f.Duration("d"), f.Strings("l"), f.Map("m"), f.Maps("r"), f.String("0"), f.Has("0"),
		f.Strings("absent")}
	want := []any{"x", true, int64(7), 3 * time.Second, []string{"a", "b"}, map[string]string{"k": "v"}, map[string]string{"k": "w"}, "",
		false, []string(nil)}
	if f.Err() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("fields = %v, %v, want %v", got, f.Err(), want)
	}
	for name, read := range map[string]func(f *drivers.Fields){
		"n": func(f *drivers.Fields) { f.String("n") }, "s": func(f *drivers.Fields) { f.Duration("s") },
		"b": func(f *drivers.Fields) { f.Int("b") }, "l": func(f *drivers.Fields) { f.Map("l") },
	} {
		bad := drivers.Fields{Value: f.Value}
		read(&bad)
		if bad.Err() == nil || !strings.HasPrefix(bad.Err().Error(), name+": ") {
			t.Errorf("misread %s: error %v, want one that names it", name, bad.Err())
		}
	}
}
