package meter

import "testing"

func TestNames(t *testing.T) {
	for method, want := range map[string]string{
		"Job.Register":          "job.register",
		"Job.Statuses":          "jobs.statuses",
		"Node.UpdateStatus":     "client.update_status",
		"Alloc.SignIdentities":  "alloc.sign_identities",
		"Allocations.Exec":      "alloc.exec",
		"ACL.WhoAmI":            "acl.whoami",
		"ACL.OIDCAuthURL":       "acl.oidc_auth_url",
		"System.GarbageCollect": "system.garbage_collect",

		"ClientCSI.ControllerAttachVolume": "client_csi_controller.attach_volume",
		"ClientCSI.NodeDetachVolume":       "client_csi_node.detach_volume",
		"CSIPlugin.List":                   "plugin.list",
		"CSIVolume.ListExternal":           "volume.list_external",
	} {
		if got := ServerName(method); got != want {
			t.Errorf("ServerName(%q) = %s, want %s", method, got, want)
		}
	}
	for method, want := range map[string]string{
		"Allocations.Exec":        "allocations.exec",
		"ClientAllocations.Stats": "allocations.stats",
		"FileSystem.Logs":         "file_system.logs",

		"CSI.ControllerAttachVolume":   "csi_controller.publish_volume",
		"CSI.ControllerDetachVolume":   "csi_controller.unpublish_volume",
		"CSI.ControllerValidateVolume": "csi_controller.validate_volume",
		"CSI.NodeDetachVolume":         "csi_node.detach_volume",
	} {
		if got := clientName(method); got != want {
			t.Errorf("clientName(%q) = %s, want %s", method, got, want)
		}
	}
}

func TestOperations(t *testing.T) {
	for _, test := range []struct {
		method string
		writes bool
		want   string
	}{
		{"Job.List", false, list}, {"Namespace.ListNamespaces", false, list}, {"Job.Allocations", false, list},
		{"Job.GetJob", false, read}, {"Job.Register", true, write}, {"Node.GetClientAllocs", false, list},
	} {
		if got := operation(test.method, test.writes); got != test.want {
			t.Errorf("operation(%q, %v) = %s, want %s", test.method, test.writes, got, test.want)
		}
	}
}
