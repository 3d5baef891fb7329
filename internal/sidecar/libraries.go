package sidecar

// Libraries returns the files and directories of shared libraries that the programs need to start. The
// embedded programs are static and need none; nomad itself may not be.
func Libraries() []string {
	if len(fetchBinary) > 0 {
		return nil
	}
	return SharedLibraries
}

// SharedLibraries are the usual places of the loader and of shared libraries.
var SharedLibraries = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"}
