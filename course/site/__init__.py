"""The course as a static site: lessons to read, pictures to step through, nothing to install."""
