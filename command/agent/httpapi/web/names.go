package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// DecodeNamed is Decode for an object that limits or grants something. It refuses an unknown key that resembles a known
// one, such as the name of the same field in a specification in HCL. Decode ignores unknown keys, as Nomad does, so
// that the limit would be missing without an error.
func (r *Request) DecodeNamed(v any) error {
	var text bytes.Buffer
	r.tee = &text
	err := r.Decode(v)
	r.tee = nil
	if err != nil {
		return err
	}
	var object json.RawMessage // text can have more after the object, which Decode ignores
	if err := json.NewDecoder(&text).Decode(&object); err != nil {
		return err
	}
	return checkNames(object, reflect.TypeOf(v), "")
}

// checkNames checks the keys of a JSON value that was decoded into a value of type t. at is the place of the value.
func checkNames(text []byte, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice:
		var items []json.RawMessage
		if json.Unmarshal(text, &items) != nil { // base64
			return nil
		}
		for i, item := range items {
			if err := checkNames(item, t.Elem(), fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var fields map[string]json.RawMessage
		if json.Unmarshal(text, &fields) != nil {
			return nil // null, or the text of a type such as time.Time
		}
		for key, value := range fields {
			if err := checkName(key, value, t, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkName checks one key of an object, and its value.
func checkName(key string, value []byte, t reflect.Type, at string) error {
	similar := ""
	for _, field := range reflect.VisibleFields(t) {
		name := jsonName(field)
		switch {
		case name == "":
		case strings.EqualFold(key, name):
			return checkNames(value, field.Type, strings.TrimPrefix(at+"."+name, "."))
		case similar == "" && folded(key) != "" && strings.HasPrefix(folded(name), folded(key)):
			similar = name
		}
	}
	if similar == "" {
		return nil
	}
	in := ""
	if at != "" {
		in = " in " + at
	}
	return apierror.Errorf(http.StatusBadRequest, "unknown key %q%s: the name in the JSON API is %q", key, in, similar)
}

// jsonName returns the key of a field, or "" if it has none.
func jsonName(field reflect.StructField) string {
	tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case !field.IsExported() || field.Anonymous || tag == "-":
		return ""
	case tag != "":
		return tag
	}
	return field.Name
}

// folded returns a name without the marks between its words.
func folded(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}
