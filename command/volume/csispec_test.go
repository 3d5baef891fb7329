package volume

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// TestParseCSI checks the values of specifications, in HCL and in JSON.
func TestParseCSI(t *testing.T) {
	whole := &api.CSIVolume{ID: "v", Name: "n", Namespace: "prod", ExternalID: "e", PluginID: "p", SnapshotID: "s", CloneID: "c",
		RequestedCapacityMin: 10 << 30, RequestedCapacityMax: 20e9,
		RequestedCapabilities: []*api.CSIVolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"},
			{AccessMode: "multi-node-reader-only", AttachmentMode: "block-device"}},
		MountOptions: &api.CSIMountOptions{FSType: "ext4", MountFlags: []string{"ro", "noatime"}},
		Secrets:      api.CSISecrets{"User": "u", "port": "5"}, Parameters: map[string]string{"ssd": "1"}, Context: map[string]string{"f": "1.5"},
		RequestedTopologies: &api.CSITopologyRequest{Required: []*api.CSITopology{{Segments: map[string]string{"zone": "a"}},
			{Segments: map[string]string{"zone": "b"}}}, Preferred: []*api.CSITopology{{Segments: map[string]string{"zone": "a"}}}}}
	for _, tt := range []struct {
		name, text string
		want       *api.CSIVolume
		ignored    string
	}{
		{"whole", `
			id = "v"
			name = "n"
			type = "csi"
			namespace = "prod"
			external_id = "e"
			plugin_id = "p"
			snapshot_id = "s"
			clone_id = "c"
			capacity_min = "10GiB"
			capacity_max = "20G"
			capability { access_mode = "single-node-writer" attachment_mode = "file-system" }
			capability { access_mode = "multi-node-reader-only" attachment_mode = "block-device" }
			mount_options { fs_type = "ext4" mount_flags = ["ro", "noatime"] }
			secrets { User = "u" port = 5 }
			parameters { ssd = true }
			context { f = 1.5 }
			topology_request {
				required { topology { segments { zone = "a" } } topology { segments { zone = "b" } } topology { segments {} } }
				preferred { topology { segments {} } }
				preferred { topology { segments { zone = "a" } } }
				preferred { topology { segments { zone = "ignored" } } }
			}`, whole, ""},
		{"JSON", `{"id":"v","name":"n","type":"csi","namespace":"prod","external_id":"e","plugin_id":"p","snapshot_id":"s","clone_id":"c",
			"capacity_min":"10GiB","capacity_max":"20 GB",
			"capability":[{"access_mode":"single-node-writer","attachment_mode":"file-system"},
				{"access_mode":"multi-node-reader-only","attachment_mode":"block-device"}],
			"mount_options":{"fs_type":"ext4","mount_flags":["ro","noatime"]},
			"secrets":{"User":"u","port":5},"parameters":{"ssd":true},"context":{"f":1.5},
			"topology_request":{"required":{"topology":[{"segments":{"zone":"a"}},{"segments":{"zone":"b"}}]},
				"preferred":{"topology":{"segments":{"zone":"a"}}}}}`, whole, ""},
		{"case", "ID = \"v\"\nType = \"csi\"\nPlugin_ID = \"p\"\nCapability {\n Access_Mode = \"single-node-writer\"\n}",
			&api.CSIVolume{ID: "v", PluginID: "p", RequestedCapabilities: []*api.CSIVolumeCapability{{AccessMode: "single-node-writer"}}}, ""},
		{"numbers", "id = 5\ntype = \"csi\"\ncapacity_min = 1048576\ncapacity_max = \"\"\nmount_options {\n mount_flags = \"ro\"\n}",
			&api.CSIVolume{ID: "5", RequestedCapacityMin: 1 << 20, MountOptions: &api.CSIMountOptions{MountFlags: []string{"ro"}}}, ""},
		{"unknown keys", "id = \"v\"\ntype = \"csi\"\naccess_mode = \"x\"\nnode {\n}", &api.CSIVolume{ID: "v"}, "access_mode node"},
		{"blocks that are merged", "type = \"csi\"\nsecrets {\n a = \"1\"\n}\nsecrets {\n b = \"2\"\n}",
			&api.CSIVolume{Secrets: api.CSISecrets{"a": "1", "b": "2"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ignored, err := parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.csi, tt.want) {
				t.Errorf("parse() = %s\nwant %s", text(t, got.csi), text(t, tt.want))
			}
			if strings.Join(ignored, " ") != tt.ignored {
				t.Errorf("ignored keys %v, want %s", ignored, tt.ignored)
			}
		})
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestParseFaults checks the errors of specifications. All faults are reported at once.
func TestParseFaults(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"syntax", "id = {", "Error decoding the volume definition: "},
		{"no type", `id = "v"`, "Error unknown volume type: : use type = \"csi\""},
		{"another type", `type = "nfs"`, "Error unknown volume type: nfs: use"},
		{"size", "type = \"csi\"\ncapacity_min = \"much\"", "Error decoding the volume definition: invalid capacity_min: could not parse value as bytes: \"much\""},
		{"negative size", "type = \"csi\"\ncapacity_max = \"-1GiB\"", "invalid capacity_max: could not parse value as bytes"},
		{"capability", "type = \"csi\"\ncapability {\n mode = \"x\"\n}", "invalid key: mode in capability"},
		{"mount options", "type = \"csi\"\nmount_options {\n flags = \"x\"\n}", "invalid key: flags in mount_options"},
		{"topology request", "type = \"csi\"\ntopology_request {\n requisite {}\n}", "invalid key: requisite in topology_request"},
		{"topology", "type = \"csi\"\ntopology_request {\n required {\n topology {\n zone = \"a\"\n}\n}\n}", "invalid key: zone in topology"},
		{"required", "type = \"csi\"\ntopology_request {\n required {\n segments {}\n}\n}", "invalid key: segments in required: use topology"},
		{"duplicate", "type = \"csi\"\nid = \"a\"\nID = \"b\"", "duplicate key id"},
		{"block of a block", "type = \"csi\"\nsecrets {\n a {\n b = \"hunter2\"\n}\n}", "secrets.a: expected a string"},
		{"text for a block", "type = \"csi\"\nsecrets = \"hunter2\"", "secrets: expected a block"},
		{"list of texts for a block", "type = \"csi\"\ncapability = [\"hunter2\"]", "capability: expected a block"},
		{"several", "type = \"csi\"\ncapacity_min = \"a\"\ncapacity_max = \"b\"", "\ninvalid capacity_max"},
		{"host", "type = \"host\"\nplugin = \"x\"", "unknown key plugin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("parse() = %v, want %q", err, tt.want)
			}
		})
	}
}
