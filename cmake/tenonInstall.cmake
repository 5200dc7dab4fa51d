# What `cmake --install` puts where, beside the plugins and the plugin API, which install themselves.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(tenon::tenon ALIAS tenon)
target_compile_features(tenon INTERFACE cxx_std_20)
install(TARGETS tenon EXPORT tenonTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/host/include/tenon
  ${PROJECT_BINARY_DIR}/host/generated/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development)

set(tenon_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tenonConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tenonConfig.cmake INSTALL_DESTINATION ${tenon_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tenonConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT tenonTargets NAMESPACE tenon:: DESTINATION ${tenon_package_dir}
  COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/tenonConfig.cmake ${PROJECT_BINARY_DIR}/tenonConfigVersion.cmake
  DESTINATION ${tenon_package_dir} COMPONENT development)
# The flag files, all values commented out: where the layer "install" is read from.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs/ DESTINATION etc/tenon COMPONENT runtime
  FILES_MATCHING PATTERN "*.toml")
# The pages as they stand in the tree, so that the links between them hold.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
  ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/SECURITY.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.md")
