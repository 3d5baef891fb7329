package cluster

import "testing"

func TestPortsAreUnique(t *testing.T) {
	seen := map[int]bool{}
	for range 300 {
		o := &Options{}
		if err := o.fillPorts(); err != nil {
			t.Fatal(err)
		}
		for _, p := range []int{o.HTTP, o.RPC, o.Serf} {
			if seen[p] || p < firstPort || p > lastPort {
				t.Fatalf("port %d is given twice, or is none of ours", p)
			}
			seen[p] = true
		}
	}
	if claimed, err := claim("@open-nomad-test-port-of-TestPortsAreUnique"); !claimed || err != nil {
		t.Errorf("claim() = %t, %v", claimed, err)
	}
	if claimed, err := claim("@open-nomad-test-port-of-TestPortsAreUnique"); claimed || err != nil {
		t.Errorf("claim() of what is taken = %t, %v", claimed, err)
	}
}
