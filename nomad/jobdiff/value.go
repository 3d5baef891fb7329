package jobdiff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// objectNames maps field names to the object names of a diff where these differ.
var objectNames = map[string]string{
	"Constraints":   "Constraint",
	"Affinities":    "Affinity",
	"Spreads":       "Spread",
	"SpreadTarget":  "SpreadTarget",
	"Networks":      "Network",
	"ReservedPorts": "Static Port",
	"DynamicPorts":  "Dynamic Port",
	"Services":      "Service",
	"Checks":        "Check",
	"Volumes":       "Volume",
	"VolumeMounts":  "VolumeMount",
	"Templates":     "Template",
	"Artifacts":     "Artifact",
	"Identities":    "Identity",
	"Actions":       "Action",
	"Secrets":       "Secret",
	"Devices":       "Device",
	"Regions":       "Region",
	"Links":         "Link",
}

// typeNames maps types of the service mesh to the object names of a diff. Their fields have the same names as others.
var typeNames = map[reflect.Type]string{
	reflect.TypeFor[nomad.ConsulConnect](): "ConsulConnect",
	reflect.TypeFor[connect.Proxy]():       "ConsulProxy",
	reflect.TypeFor[connect.Upstream]():    "ConsulUpstreams",
	reflect.TypeFor[connect.Gateway]():     "ConsulGateway",
}

var secretType = reflect.TypeFor[nomad.Secret]()

// identifyingFields identify an element of a list across two versions. Elements without such a field match
// only if they are equal.
var identifyingFields = []string{"Name", "Label", "PortLabel", "Volume", "DestPath", "DestinationName"}

// diffFields compares two structs of the same type and returns only changes. Scalars and maps of strings become
// field diffs, everything else becomes object diffs. t is Added or Deleted if one side is absent.
func diffFields(old, new reflect.Value, t message.DiffType, skip map[string]bool) ([]*message.FieldDiff, []*message.ObjectDiff) {
	var fields []*message.FieldDiff
	var objects []*message.ObjectDiff
	for i := range old.NumField() {
		f := old.Type().Field(i)
		if !f.IsExported() || skip[f.Name] || isUnset(f, old.Field(i), new.Field(i)) {
			continue
		}
		fs, os := diffValue(f.Name, old.Field(i), new.Field(i))
		fields, objects = append(fields, fs...), append(objects, os...)
	}
	return changedFields(oneSided(t, fields)), sortObjects(objects)
}

// isUnset reports whether a field that only open-nomad has is not set on either side. Diffs are then the
// same as those of Nomad. Such fields stay off the wire while they are not set.
func isUnset(f reflect.StructField, old, new reflect.Value) bool {
	return strings.HasSuffix(f.Tag.Get("codec"), ",omitempty") && old.IsZero() && new.IsZero()
}

// oneSided marks all fields of an added or deleted object as added or deleted and clears the value of the
// absent side.
func oneSided(t message.DiffType, fields []*message.FieldDiff) []*message.FieldDiff {
	for _, f := range fields {
		switch t {
		case message.DiffTypeAdded:
			f.Type, f.Old = t, ""
		case message.DiffTypeDeleted:
			f.Type, f.New = t, ""
		}
	}
	return slices.DeleteFunc(fields, func(f *message.FieldDiff) bool { return f.Old == "" && f.New == "" })
}

func changedFields(fields []*message.FieldDiff) []*message.FieldDiff {
	fields = slices.DeleteFunc(fields, func(f *message.FieldDiff) bool { return f.Type == message.DiffTypeNone })
	slices.SortStableFunc(fields, func(a, b *message.FieldDiff) int { return cmp.Compare(a.Name, b.Name) })
	return fields
}

func sortObjects(objects []*message.ObjectDiff) []*message.ObjectDiff {
	slices.SortStableFunc(objects, func(a, b *message.ObjectDiff) int { return cmp.Compare(a.Name, b.Name) })
	return objects
}

// diffValue compares one field. The field diffs that it returns include unchanged fields.
func diffValue(name string, old, new reflect.Value) ([]*message.FieldDiff, []*message.ObjectDiff) {
	t := old.Type()
	elem := t
	for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
		elem = elem.Elem()
	}
	switch {
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String:
		return diffFlat(flatten(name, old), flatten(name, new)), nil
	case t.Kind() == reflect.Map && elemStruct(t.Elem()):
		return nil, diffStructMap(name, old, new)
	case t.Kind() == reflect.Map:
		return nil, oneObject(name, diffType(!hasElements(old), !hasElements(new)), diffFlat(flatten("", old), flatten("", new)), nil)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return diffFlat(map[string]string{name: string(old.Bytes())}, map[string]string{name: string(new.Bytes())}), nil
	case t.Kind() == reflect.Slice && elem.Kind() == reflect.Struct:
		return nil, diffStructList(name, old, new)
	case t.Kind() == reflect.Slice:
		return nil, diffTexts(name, old, new)
	case elem.Kind() == reflect.Struct && elem != reflect.TypeFor[time.Time]():
		return nil, diffStruct(name, old, new)
	}
	return diffFlat(flatten(name, old), flatten(name, new)), nil
}

func elemStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

func hasElements(m reflect.Value) bool { return m.Len() > 0 }

// diffStruct compares two structs, or pointers to structs, as one object. The unchanged fields are included
// as context.
func diffStruct(name string, old, new reflect.Value) []*message.ObjectDiff {
	noOld, was := structOf(old)
	noNew, is := structOf(new)
	if noOld && noNew {
		return nil
	}
	var fields []*message.FieldDiff
	var objects []*message.ObjectDiff
	for i := range was.NumField() {
		f := was.Type().Field(i)
		if !f.IsExported() || objectSkips[name][f.Name] || isUnset(f, was.Field(i), is.Field(i)) {
			continue
		}
		if was.Type() == secretType && f.Name == "Config" { // fields of the secret, not an object as in a task
			fields = append(fields, diffFlat(flatten(f.Name, was.Field(i)), flatten(f.Name, is.Field(i)))...)
			continue
		}
		fs, os := diffValue(f.Name, was.Field(i), is.Field(i))
		fields, objects = append(fields, fs...), append(objects, os...)
	}
	return oneObject(cmp.Or(typeNames[was.Type()], name), diffType(noOld, noNew), fields, objects)
}

// structOf returns the struct that a field holds or points to, and an empty struct for a nil pointer.
func structOf(v reflect.Value) (absent bool, s reflect.Value) {
	if v.Kind() != reflect.Pointer {
		return !v.IsValid(), v
	}
	if v.IsNil() {
		return true, reflect.Zero(v.Type().Elem())
	}
	return false, v.Elem()
}

// oneObject returns a list with one object diff, or nil if nothing changed.
func oneObject(name string, sides message.DiffType, fields []*message.FieldDiff, objects []*message.ObjectDiff) []*message.ObjectDiff {
	fields = oneSided(sides, fields)
	changed := len(objects) > 0 || slices.ContainsFunc(fields, func(f *message.FieldDiff) bool { return f.Type != message.DiffTypeNone })
	d := &message.ObjectDiff{Name: cmp.Or(objectNames[name], name), Type: settle(sides, changed)}
	if d.Type == message.DiffTypeNone {
		return nil
	}
	for _, empty := range emptyFields[name] {
		if !slices.ContainsFunc(fields, func(f *message.FieldDiff) bool { return f.Name == empty }) {
			fields = append(fields, &message.FieldDiff{Type: message.DiffTypeNone, Name: empty})
		}
	}
	slices.SortStableFunc(fields, func(a, b *message.FieldDiff) int { return cmp.Compare(a.Name, b.Name) })
	d.Fields, d.Objects = fields, sortObjects(objects)
	return []*message.ObjectDiff{d}
}

// diffStructList pairs each old element with the first new one that has the same identity. Lists can have thousands of
// elements, so that the elements are not compared with each other.
func diffStructList(name string, old, new reflect.Value) []*message.ObjectDiff {
	var out []*message.ObjectDiff
	is := elements(new)
	byIdentity := map[string][]int{}
	for i, e := range is {
		id := identityOf(e)
		byIdentity[id] = append(byIdentity[id], i)
	}
	paired := make([]bool, len(is))
	for _, was := range elements(old) {
		id := identityOf(was)
		same := byIdentity[id]
		if len(same) == 0 {
			out = append(out, diffStruct(name, was, reflect.Zero(was.Type()))...)
			continue
		}
		out = append(out, diffStruct(name, was, is[same[0]])...)
		paired[same[0]], byIdentity[id] = true, same[1:]
	}
	for i, e := range is {
		if !paired[i] {
			out = append(out, diffStruct(name, reflect.Zero(e.Type()), e)...)
		}
	}
	return out
}

// elements returns pointers to the elements of a list.
func elements(list reflect.Value) []reflect.Value {
	var out []reflect.Value
	for i := range list.Len() {
		v := list.Index(i)
		if v.Kind() != reflect.Pointer {
			p := reflect.New(v.Type())
			p.Elem().Set(v)
			v = p
		}
		if !v.IsNil() {
			out = append(out, v)
		}
	}
	return out
}

// identityOf returns the first identifying field of an element, or else the complete element.
func identityOf(e reflect.Value) string {
	for _, field := range identifyingFields {
		if f := e.Elem().FieldByName(field); f.IsValid() && f.Kind() == reflect.String && f.String() != "" {
			return field + "=" + f.String()
		}
	}
	text, err := json.Marshal(diffStruct("", reflect.Zero(e.Type()), e))
	if err != nil {
		panic("jobdiff: encode a diff: " + err.Error()) // it has only strings
	}
	return string(text)
}

func diffStructMap(name string, old, new reflect.Value) []*message.ObjectDiff {
	var out []*message.ObjectDiff
	for _, key := range unionKeys(textKeys(old), textKeys(new)) {
		out = append(out, diffStruct(name, mapPointer(old, key), mapPointer(new, key))...)
	}
	return out
}

func textKeys(m reflect.Value) map[string]bool {
	out := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		out[it.Key().String()] = true
	}
	return out
}

// mapPointer returns a pointer to the map value of the key, or nil if the key is absent.
func mapPointer(m reflect.Value, key string) reflect.Value {
	elem := m.Type().Elem()
	v := m.MapIndex(reflect.ValueOf(key).Convert(m.Type().Key()))
	if elem.Kind() == reflect.Pointer {
		if !v.IsValid() {
			return reflect.Zero(elem)
		}
		return v
	}
	if !v.IsValid() {
		return reflect.Zero(reflect.PointerTo(elem))
	}
	p := reflect.New(elem)
	p.Elem().Set(v)
	return p
}

// diffTexts compares lists of scalars as sets.
func diffTexts(name string, old, new reflect.Value) []*message.ObjectDiff {
	was, is := texts(old), texts(new)
	d := &message.ObjectDiff{Name: name, Type: settle(diffType(len(was) == 0, len(is) == 0), true)}
	inOld, inNew := setOf(was), setOf(is)
	changed := false
	for _, v := range was {
		f := &message.FieldDiff{Type: message.DiffTypeNone, Name: name, Old: v, New: v}
		if !inNew[v] {
			f.Type, f.New, changed = message.DiffTypeDeleted, "", true
		}
		d.Fields = append(d.Fields, f)
	}
	for _, v := range is {
		if !inOld[v] {
			d.Fields = append(d.Fields, &message.FieldDiff{Type: message.DiffTypeAdded, Name: name, New: v})
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return []*message.ObjectDiff{d}
}

func setOf(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, v := range list {
		out[v] = true
	}
	return out
}

func texts(list reflect.Value) []string {
	var out []string
	for i := range list.Len() {
		out = append(out, plainText(list.Index(i)))
	}
	return out
}

// diffFlat compares flattened values. An empty string equals an absent value.
func diffFlat(old, new map[string]string) []*message.FieldDiff {
	var out []*message.FieldDiff
	for _, key := range unionKeys(old, new) {
		was, is := old[key], new[key]
		f := &message.FieldDiff{Name: key, Old: was, New: is, Type: message.DiffTypeEdited}
		switch {
		case was == is && was == "":
			continue
		case was == is:
			f.Type = message.DiffTypeNone
		case was == "":
			f.Type = message.DiffTypeAdded
		case is == "":
			f.Type = message.DiffTypeDeleted
		}
		out = append(out, f)
	}
	return out
}

// flatten converts a value to strings by path, such as "args[0]" or "labels[team]". At the top level of a map
// without a name, the path is the key alone.
func flatten(path string, v reflect.Value) map[string]string {
	out := map[string]string{}
	flattenInto(out, path, v)
	return out
}

func flattenInto(out map[string]string, path string, v reflect.Value) {
	for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) {
		v = v.Elem() // Elem of a nil value is invalid
	}
	if !v.IsValid() {
		return
	}
	switch v.Kind() {
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			key := fmt.Sprint(it.Key())
			if path != "" {
				key = path + "[" + key + "]"
			}
			flattenInto(out, key, it.Value())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			out[path] = string(v.Bytes())
			return
		}
		for i := range v.Len() {
			flattenInto(out, path+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	default:
		out[path] = plainText(v)
	}
}

// plainText formats a scalar. Numbers have the same form whichever codec decoded them. Durations are nanoseconds.
func plainText(v reflect.Value) string {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10)
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
